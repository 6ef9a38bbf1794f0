complete --keep-order --exclusive --command shorefast --arguments "(SHOREFAST_COMPLETE=fish shorefast -- (commandline --current-process --tokenize --cut-at-cursor) (commandline --current-token))"
