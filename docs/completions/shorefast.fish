# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_shorefast_global_optspecs
    string join \n run-dir= root= clients= client-image= host-proc= max-image-size= max-image-entries= h/help V/version
end

function __fish_shorefast_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_shorefast_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_shorefast_using_subcommand
    set -l cmd (__fish_shorefast_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c shorefast -n "__fish_shorefast_needs_command" -l run-dir -d 'Where records of live mounts are kept' -r -F
complete -c shorefast -n "__fish_shorefast_needs_command" -l root -d 'Where unpacked images are kept' -r -F
complete -c shorefast -n "__fish_shorefast_needs_command" -l clients -d 'Where client definitions are read from: a directory, which may be a mounted ConfigMap, or several separated by colons, of which later ones take precedence' -r -F
complete -c shorefast -n "__fish_shorefast_needs_command" -l client-image -d 'Use this image for a client, given by its name or a type; takes precedence over any file' -r
complete -c shorefast -n "__fish_shorefast_needs_command" -l host-proc -d 'This is a container, and DIR its view of the host\'s /proc: do everything on the host' -r -F
complete -c shorefast -n "__fish_shorefast_needs_command" -l max-image-size -d 'Refuse images that are larger, unpacked' -r
complete -c shorefast -n "__fish_shorefast_needs_command" -l max-image-entries -d 'Refuse images with more files' -r
complete -c shorefast -n "__fish_shorefast_needs_command" -s h -l help -d 'Print help'
complete -c shorefast -n "__fish_shorefast_needs_command" -s V -l version -d 'Print version'
complete -c shorefast -n "__fish_shorefast_needs_command" -f -a "mount" -d 'Mount SOURCE at TARGET through a client from an image'
complete -c shorefast -n "__fish_shorefast_needs_command" -f -a "umount" -d 'Unmount, end the client, and leave nothing behind'
complete -c shorefast -n "__fish_shorefast_needs_command" -f -a "list" -d 'Show all mounts; never waits for a server'
complete -c shorefast -n "__fish_shorefast_needs_command" -f -a "inspect" -d 'Show everything that is known about one mount'
complete -c shorefast -n "__fish_shorefast_needs_command" -f -a "logs" -d 'Show what a mount\'s client has printed (the newest 64 KiB)'
complete -c shorefast -n "__fish_shorefast_needs_command" -f -a "image" -d 'Get, show and remove client images'
complete -c shorefast -n "__fish_shorefast_needs_command" -f -a "client" -d 'Show and check client definitions'
complete -c shorefast -n "__fish_shorefast_needs_command" -f -a "demo" -d 'Mount from a temporary server, show what runs, and clean up: an introduction'
complete -c shorefast -n "__fish_shorefast_needs_command" -f -a "reconcile" -d 'Clean up after killed processes and ended mounts'
complete -c shorefast -n "__fish_shorefast_needs_command" -f -a "install" -d 'Install Shorefast for kubelet, mount(8) and systemd; run it again to upgrade'
complete -c shorefast -n "__fish_shorefast_needs_command" -f -a "uninstall" -d 'Remove what `install` has installed, and nothing else; live mounts continue'
complete -c shorefast -n "__fish_shorefast_needs_command" -f -a "serve" -d 'Serve volumes to Kubernetes, until SIGTERM; volumes outlive it'
complete -c shorefast -n "__fish_shorefast_needs_command" -f -a "doctor" -d 'Check what is missing on this host, and show what to do about it'
complete -c shorefast -n "__fish_shorefast_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c shorefast -n "__fish_shorefast_using_subcommand mount" -s t -l type -d 'The filesystem type; default: the first type of the chosen client' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand mount" -s o -l options -d 'Mount options, separated by commas; may be given more than once' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand mount" -l secret-file -d 'Read the secret (a password, a key) from this file, which may be a pipe; `-` reads standard input. The client gets it in a private file, as its definition says' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand mount" -l secret-fd -d 'The same from an open file descriptor of the caller' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand mount" -l client -d 'Use the client definition of this name' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand mount" -l client-file -d 'Use this client definition' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand mount" -l image -d 'Use this image instead of the definition\'s: NAME[:TAG] of a registry, oci:DIR, oci-archive:FILE, docker-archive:FILE, packages:DISTRIBUTION/SUITE?PACKAGE, tar:FILE or dir:ROOTFS' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand mount" -l container -d 'Run the client in this running container: NAME or LABEL=VALUE, optionally prefixed by docker:, podman: or containerd:' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand mount" -l mode -d 'Where the client runs: in a sandbox (container), from its image with all rights of root (chroot), in a running container (exec), or not at all, but mount(8) is used (host); auto: host if this host has a helper for the type. Default: what the client\'s definition says, else container' -r -f -a "container\t''
chroot\t''
exec\t''
host\t''
auto\t''"
complete -c shorefast -n "__fish_shorefast_using_subcommand mount" -l timeout -d 'Give up after this time, such as 30s or 2m' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand mount" -l image-timeout -d 'Give up getting the image after this time, such as 5m; default: no limit. --timeout counts from when the image is there' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand mount" -l run-dir -d 'Where records of live mounts are kept' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand mount" -l root -d 'Where unpacked images are kept' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand mount" -l clients -d 'Where client definitions are read from: a directory, which may be a mounted ConfigMap, or several separated by colons, of which later ones take precedence' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand mount" -l client-image -d 'Use this image for a client, given by its name or a type; takes precedence over any file' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand mount" -l host-proc -d 'This is a container, and DIR its view of the host\'s /proc: do everything on the host' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand mount" -l max-image-size -d 'Refuse images that are larger, unpacked' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand mount" -l max-image-entries -d 'Refuse images with more files' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand mount" -l over -d 'Mount on top of an existing mount of ours'
complete -c shorefast -n "__fish_shorefast_using_subcommand mount" -l offline -d 'Never use the network: use only images that are in the store'
complete -c shorefast -n "__fish_shorefast_using_subcommand mount" -l dry-run -d 'Print the plan as JSON and do nothing; needs no root'
complete -c shorefast -n "__fish_shorefast_using_subcommand mount" -l unit -d 'Print a systemd unit that makes this mount, and do nothing; it needs /sbin/mount.TYPE (`install --helpers`)'
complete -c shorefast -n "__fish_shorefast_using_subcommand mount" -s h -l help -d 'Print help'
complete -c shorefast -n "__fish_shorefast_using_subcommand umount" -l run-dir -d 'Where records of live mounts are kept' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand umount" -l root -d 'Where unpacked images are kept' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand umount" -l clients -d 'Where client definitions are read from: a directory, which may be a mounted ConfigMap, or several separated by colons, of which later ones take precedence' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand umount" -l client-image -d 'Use this image for a client, given by its name or a type; takes precedence over any file' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand umount" -l host-proc -d 'This is a container, and DIR its view of the host\'s /proc: do everything on the host' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand umount" -l max-image-size -d 'Refuse images that are larger, unpacked' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand umount" -l max-image-entries -d 'Refuse images with more files' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand umount" -s l -l lazy -d 'Detach now; the mount ends when it is no longer in use'
complete -c shorefast -n "__fish_shorefast_using_subcommand umount" -s f -l force -d 'Unmount in any case: users of the mount get errors'
complete -c shorefast -n "__fish_shorefast_using_subcommand umount" -s h -l help -d 'Print help'
complete -c shorefast -n "__fish_shorefast_using_subcommand list" -l run-dir -d 'Where records of live mounts are kept' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand list" -l root -d 'Where unpacked images are kept' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand list" -l clients -d 'Where client definitions are read from: a directory, which may be a mounted ConfigMap, or several separated by colons, of which later ones take precedence' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand list" -l client-image -d 'Use this image for a client, given by its name or a type; takes precedence over any file' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand list" -l host-proc -d 'This is a container, and DIR its view of the host\'s /proc: do everything on the host' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand list" -l max-image-size -d 'Refuse images that are larger, unpacked' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand list" -l max-image-entries -d 'Refuse images with more files' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand list" -l json -d 'A JSON array of {id, target, source, fstype, client, image, digest, mode, pid, state, covered, namespace, since}'
complete -c shorefast -n "__fish_shorefast_using_subcommand list" -s h -l help -d 'Print help'
complete -c shorefast -n "__fish_shorefast_using_subcommand inspect" -l run-dir -d 'Where records of live mounts are kept' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand inspect" -l root -d 'Where unpacked images are kept' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand inspect" -l clients -d 'Where client definitions are read from: a directory, which may be a mounted ConfigMap, or several separated by colons, of which later ones take precedence' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand inspect" -l client-image -d 'Use this image for a client, given by its name or a type; takes precedence over any file' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand inspect" -l host-proc -d 'This is a container, and DIR its view of the host\'s /proc: do everything on the host' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand inspect" -l max-image-size -d 'Refuse images that are larger, unpacked' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand inspect" -l max-image-entries -d 'Refuse images with more files' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand inspect" -l json
complete -c shorefast -n "__fish_shorefast_using_subcommand inspect" -s h -l help -d 'Print help'
complete -c shorefast -n "__fish_shorefast_using_subcommand logs" -l run-dir -d 'Where records of live mounts are kept' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand logs" -l root -d 'Where unpacked images are kept' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand logs" -l clients -d 'Where client definitions are read from: a directory, which may be a mounted ConfigMap, or several separated by colons, of which later ones take precedence' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand logs" -l client-image -d 'Use this image for a client, given by its name or a type; takes precedence over any file' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand logs" -l host-proc -d 'This is a container, and DIR its view of the host\'s /proc: do everything on the host' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand logs" -l max-image-size -d 'Refuse images that are larger, unpacked' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand logs" -l max-image-entries -d 'Refuse images with more files' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand logs" -s f -l follow -d 'Continue until the mount ends'
complete -c shorefast -n "__fish_shorefast_using_subcommand logs" -s h -l help -d 'Print help'
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and not __fish_seen_subcommand_from pull outdated import build export push list inspect remove gc help" -l run-dir -d 'Where records of live mounts are kept' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and not __fish_seen_subcommand_from pull outdated import build export push list inspect remove gc help" -l root -d 'Where unpacked images are kept' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and not __fish_seen_subcommand_from pull outdated import build export push list inspect remove gc help" -l clients -d 'Where client definitions are read from: a directory, which may be a mounted ConfigMap, or several separated by colons, of which later ones take precedence' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and not __fish_seen_subcommand_from pull outdated import build export push list inspect remove gc help" -l client-image -d 'Use this image for a client, given by its name or a type; takes precedence over any file' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and not __fish_seen_subcommand_from pull outdated import build export push list inspect remove gc help" -l host-proc -d 'This is a container, and DIR its view of the host\'s /proc: do everything on the host' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and not __fish_seen_subcommand_from pull outdated import build export push list inspect remove gc help" -l max-image-size -d 'Refuse images that are larger, unpacked' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and not __fish_seen_subcommand_from pull outdated import build export push list inspect remove gc help" -l max-image-entries -d 'Refuse images with more files' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and not __fish_seen_subcommand_from pull outdated import build export push list inspect remove gc help" -s h -l help -d 'Print help'
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and not __fish_seen_subcommand_from pull outdated import build export push list inspect remove gc help" -f -a "pull" -d 'Get an image, or update it to the newest of its name; live mounts keep theirs'
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and not __fish_seen_subcommand_from pull outdated import build export push list inspect remove gc help" -f -a "outdated" -d 'Say which images of registries and packages have newer versions, without getting them'
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and not __fish_seen_subcommand_from pull outdated import build export push list inspect remove gc help" -f -a "import" -d 'Import an image from a file, under a name'
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and not __fish_seen_subcommand_from pull outdated import build export push list inspect remove gc help" -f -a "build" -d 'Build an image from distribution packages, verified, without running any of their scripts'
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and not __fish_seen_subcommand_from pull outdated import build export push list inspect remove gc help" -f -a "export" -d 'Write an image to a file or directory, for other machines and tools; the same image has the same digest everywhere'
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and not __fish_seen_subcommand_from pull outdated import build export push list inspect remove gc help" -f -a "push" -d 'Send an image to a registry; what the registry has already is not sent again'
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and not __fish_seen_subcommand_from pull outdated import build export push list inspect remove gc help" -f -a "list" -d 'Show all images'
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and not __fish_seen_subcommand_from pull outdated import build export push list inspect remove gc help" -f -a "inspect" -d 'Show everything that is known about one image'
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and not __fish_seen_subcommand_from pull outdated import build export push list inspect remove gc help" -f -a "remove" -d 'Remove names, and images with their last name; refuses images that a live mount uses'
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and not __fish_seen_subcommand_from pull outdated import build export push list inspect remove gc help" -f -a "gc" -d 'Remove images that have neither a name nor a user, and leftovers of killed processes'
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and not __fish_seen_subcommand_from pull outdated import build export push list inspect remove gc help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from pull" -l run-dir -d 'Where records of live mounts are kept' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from pull" -l root -d 'Where unpacked images are kept' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from pull" -l clients -d 'Where client definitions are read from: a directory, which may be a mounted ConfigMap, or several separated by colons, of which later ones take precedence' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from pull" -l client-image -d 'Use this image for a client, given by its name or a type; takes precedence over any file' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from pull" -l host-proc -d 'This is a container, and DIR its view of the host\'s /proc: do everything on the host' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from pull" -l max-image-size -d 'Refuse images that are larger, unpacked' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from pull" -l max-image-entries -d 'Refuse images with more files' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from pull" -l all -d 'All images of registries and packages that are here, under the names that they have'
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from pull" -s h -l help -d 'Print help'
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from outdated" -l run-dir -d 'Where records of live mounts are kept' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from outdated" -l root -d 'Where unpacked images are kept' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from outdated" -l clients -d 'Where client definitions are read from: a directory, which may be a mounted ConfigMap, or several separated by colons, of which later ones take precedence' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from outdated" -l client-image -d 'Use this image for a client, given by its name or a type; takes precedence over any file' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from outdated" -l host-proc -d 'This is a container, and DIR its view of the host\'s /proc: do everything on the host' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from outdated" -l max-image-size -d 'Refuse images that are larger, unpacked' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from outdated" -l max-image-entries -d 'Refuse images with more files' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from outdated" -l json -d 'A JSON array of {name, digest, newest, outdated, security, changes}, current ones included'
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from outdated" -s h -l help -d 'Print help'
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from import" -l run-dir -d 'Where records of live mounts are kept' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from import" -l root -d 'Where unpacked images are kept' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from import" -l clients -d 'Where client definitions are read from: a directory, which may be a mounted ConfigMap, or several separated by colons, of which later ones take precedence' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from import" -l client-image -d 'Use this image for a client, given by its name or a type; takes precedence over any file' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from import" -l host-proc -d 'This is a container, and DIR its view of the host\'s /proc: do everything on the host' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from import" -l max-image-size -d 'Refuse images that are larger, unpacked' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from import" -l max-image-entries -d 'Refuse images with more files' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from import" -s h -l help -d 'Print help'
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from build" -l packages -d 'Packages to install; dependencies and a few base tools are added' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from build" -l suite -d 'Release of the distribution; default: the configured one, or this machine\'s' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from build" -l mirror -d 'The archive to download from; several are tried in order; default: the configured ones, or those of this machine\'s apt' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from build" -l keyring -d 'Keys that may sign the archive; default: this machine\'s keys' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from build" -l lock -d 'Rebuild exactly the packages in this file; needs no archive for packages that were downloaded before' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from build" -l write-lock -d 'Write the list of packages used, for --lock' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from build" -l run-dir -d 'Where records of live mounts are kept' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from build" -l root -d 'Where unpacked images are kept' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from build" -l clients -d 'Where client definitions are read from: a directory, which may be a mounted ConfigMap, or several separated by colons, of which later ones take precedence' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from build" -l client-image -d 'Use this image for a client, given by its name or a type; takes precedence over any file' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from build" -l host-proc -d 'This is a container, and DIR its view of the host\'s /proc: do everything on the host' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from build" -l max-image-size -d 'Refuse images that are larger, unpacked' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from build" -l max-image-entries -d 'Refuse images with more files' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from build" -l offline -d 'Use only what was downloaded before'
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from build" -s h -l help -d 'Print help'
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from export" -l run-dir -d 'Where records of live mounts are kept' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from export" -l root -d 'Where unpacked images are kept' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from export" -l clients -d 'Where client definitions are read from: a directory, which may be a mounted ConfigMap, or several separated by colons, of which later ones take precedence' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from export" -l client-image -d 'Use this image for a client, given by its name or a type; takes precedence over any file' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from export" -l host-proc -d 'This is a container, and DIR its view of the host\'s /proc: do everything on the host' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from export" -l max-image-size -d 'Refuse images that are larger, unpacked' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from export" -l max-image-entries -d 'Refuse images with more files' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from export" -s h -l help -d 'Print help'
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from push" -l run-dir -d 'Where records of live mounts are kept' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from push" -l root -d 'Where unpacked images are kept' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from push" -l clients -d 'Where client definitions are read from: a directory, which may be a mounted ConfigMap, or several separated by colons, of which later ones take precedence' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from push" -l client-image -d 'Use this image for a client, given by its name or a type; takes precedence over any file' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from push" -l host-proc -d 'This is a container, and DIR its view of the host\'s /proc: do everything on the host' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from push" -l max-image-size -d 'Refuse images that are larger, unpacked' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from push" -l max-image-entries -d 'Refuse images with more files' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from push" -s h -l help -d 'Print help'
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from list" -l run-dir -d 'Where records of live mounts are kept' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from list" -l root -d 'Where unpacked images are kept' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from list" -l clients -d 'Where client definitions are read from: a directory, which may be a mounted ConfigMap, or several separated by colons, of which later ones take precedence' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from list" -l client-image -d 'Use this image for a client, given by its name or a type; takes precedence over any file' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from list" -l host-proc -d 'This is a container, and DIR its view of the host\'s /proc: do everything on the host' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from list" -l max-image-size -d 'Refuse images that are larger, unpacked' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from list" -l max-image-entries -d 'Refuse images with more files' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from list" -l json -d 'A JSON array of {name, names, digest, size, used_by, source, created}'
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help'
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from inspect" -l run-dir -d 'Where records of live mounts are kept' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from inspect" -l root -d 'Where unpacked images are kept' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from inspect" -l clients -d 'Where client definitions are read from: a directory, which may be a mounted ConfigMap, or several separated by colons, of which later ones take precedence' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from inspect" -l client-image -d 'Use this image for a client, given by its name or a type; takes precedence over any file' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from inspect" -l host-proc -d 'This is a container, and DIR its view of the host\'s /proc: do everything on the host' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from inspect" -l max-image-size -d 'Refuse images that are larger, unpacked' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from inspect" -l max-image-entries -d 'Refuse images with more files' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from inspect" -l json
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from inspect" -s h -l help -d 'Print help'
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from remove" -l run-dir -d 'Where records of live mounts are kept' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from remove" -l root -d 'Where unpacked images are kept' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from remove" -l clients -d 'Where client definitions are read from: a directory, which may be a mounted ConfigMap, or several separated by colons, of which later ones take precedence' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from remove" -l client-image -d 'Use this image for a client, given by its name or a type; takes precedence over any file' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from remove" -l host-proc -d 'This is a container, and DIR its view of the host\'s /proc: do everything on the host' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from remove" -l max-image-size -d 'Refuse images that are larger, unpacked' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from remove" -l max-image-entries -d 'Refuse images with more files' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from remove" -s h -l help -d 'Print help'
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from gc" -l run-dir -d 'Where records of live mounts are kept' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from gc" -l root -d 'Where unpacked images are kept' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from gc" -l clients -d 'Where client definitions are read from: a directory, which may be a mounted ConfigMap, or several separated by colons, of which later ones take precedence' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from gc" -l client-image -d 'Use this image for a client, given by its name or a type; takes precedence over any file' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from gc" -l host-proc -d 'This is a container, and DIR its view of the host\'s /proc: do everything on the host' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from gc" -l max-image-size -d 'Refuse images that are larger, unpacked' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from gc" -l max-image-entries -d 'Refuse images with more files' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from gc" -l json
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from gc" -s h -l help -d 'Print help'
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from help" -f -a "pull" -d 'Get an image, or update it to the newest of its name; live mounts keep theirs'
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from help" -f -a "outdated" -d 'Say which images of registries and packages have newer versions, without getting them'
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from help" -f -a "import" -d 'Import an image from a file, under a name'
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from help" -f -a "build" -d 'Build an image from distribution packages, verified, without running any of their scripts'
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from help" -f -a "export" -d 'Write an image to a file or directory, for other machines and tools; the same image has the same digest everywhere'
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from help" -f -a "push" -d 'Send an image to a registry; what the registry has already is not sent again'
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from help" -f -a "list" -d 'Show all images'
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from help" -f -a "inspect" -d 'Show everything that is known about one image'
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from help" -f -a "remove" -d 'Remove names, and images with their last name; refuses images that a live mount uses'
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from help" -f -a "gc" -d 'Remove images that have neither a name nor a user, and leftovers of killed processes'
complete -c shorefast -n "__fish_shorefast_using_subcommand image; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c shorefast -n "__fish_shorefast_using_subcommand client; and not __fish_seen_subcommand_from list show new test check help" -l run-dir -d 'Where records of live mounts are kept' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand client; and not __fish_seen_subcommand_from list show new test check help" -l root -d 'Where unpacked images are kept' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand client; and not __fish_seen_subcommand_from list show new test check help" -l clients -d 'Where client definitions are read from: a directory, which may be a mounted ConfigMap, or several separated by colons, of which later ones take precedence' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand client; and not __fish_seen_subcommand_from list show new test check help" -l client-image -d 'Use this image for a client, given by its name or a type; takes precedence over any file' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand client; and not __fish_seen_subcommand_from list show new test check help" -l host-proc -d 'This is a container, and DIR its view of the host\'s /proc: do everything on the host' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand client; and not __fish_seen_subcommand_from list show new test check help" -l max-image-size -d 'Refuse images that are larger, unpacked' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand client; and not __fish_seen_subcommand_from list show new test check help" -l max-image-entries -d 'Refuse images with more files' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand client; and not __fish_seen_subcommand_from list show new test check help" -s h -l help -d 'Print help'
complete -c shorefast -n "__fish_shorefast_using_subcommand client; and not __fish_seen_subcommand_from list show new test check help" -f -a "list" -d 'Show all clients, in the order in which a type is looked up'
complete -c shorefast -n "__fish_shorefast_using_subcommand client; and not __fish_seen_subcommand_from list show new test check help" -f -a "show" -d 'Show one definition, with the origin of each key'
complete -c shorefast -n "__fish_shorefast_using_subcommand client; and not __fish_seen_subcommand_from list show new test check help" -f -a "new" -d 'Write a commented definition to the standard output'
complete -c shorefast -n "__fish_shorefast_using_subcommand client; and not __fish_seen_subcommand_from list show new test check help" -f -a "test" -d 'Try a definition: mount, read, write, privileges, memory, unmount, kill; prints a report'
complete -c shorefast -n "__fish_shorefast_using_subcommand client; and not __fish_seen_subcommand_from list show new test check help" -f -a "check" -d 'Check definitions without using them'
complete -c shorefast -n "__fish_shorefast_using_subcommand client; and not __fish_seen_subcommand_from list show new test check help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c shorefast -n "__fish_shorefast_using_subcommand client; and __fish_seen_subcommand_from list" -l run-dir -d 'Where records of live mounts are kept' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand client; and __fish_seen_subcommand_from list" -l root -d 'Where unpacked images are kept' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand client; and __fish_seen_subcommand_from list" -l clients -d 'Where client definitions are read from: a directory, which may be a mounted ConfigMap, or several separated by colons, of which later ones take precedence' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand client; and __fish_seen_subcommand_from list" -l client-image -d 'Use this image for a client, given by its name or a type; takes precedence over any file' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand client; and __fish_seen_subcommand_from list" -l host-proc -d 'This is a container, and DIR its view of the host\'s /proc: do everything on the host' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand client; and __fish_seen_subcommand_from list" -l max-image-size -d 'Refuse images that are larger, unpacked' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand client; and __fish_seen_subcommand_from list" -l max-image-entries -d 'Refuse images with more files' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand client; and __fish_seen_subcommand_from list" -l json -d 'A JSON array of {name, types, mode, image, from}'
complete -c shorefast -n "__fish_shorefast_using_subcommand client; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help'
complete -c shorefast -n "__fish_shorefast_using_subcommand client; and __fish_seen_subcommand_from show" -l run-dir -d 'Where records of live mounts are kept' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand client; and __fish_seen_subcommand_from show" -l root -d 'Where unpacked images are kept' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand client; and __fish_seen_subcommand_from show" -l clients -d 'Where client definitions are read from: a directory, which may be a mounted ConfigMap, or several separated by colons, of which later ones take precedence' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand client; and __fish_seen_subcommand_from show" -l client-image -d 'Use this image for a client, given by its name or a type; takes precedence over any file' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand client; and __fish_seen_subcommand_from show" -l host-proc -d 'This is a container, and DIR its view of the host\'s /proc: do everything on the host' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand client; and __fish_seen_subcommand_from show" -l max-image-size -d 'Refuse images that are larger, unpacked' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand client; and __fish_seen_subcommand_from show" -l max-image-entries -d 'Refuse images with more files' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand client; and __fish_seen_subcommand_from show" -l json
complete -c shorefast -n "__fish_shorefast_using_subcommand client; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help'
complete -c shorefast -n "__fish_shorefast_using_subcommand client; and __fish_seen_subcommand_from new" -l image -d 'Where the client comes from, as in `image =`; asked for at a terminal' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand client; and __fish_seen_subcommand_from new" -l type -d 'Filesystem types, as in `mount -t`; default: the name' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand client; and __fish_seen_subcommand_from new" -l kernel-type -d 'What the kernel calls the mount; default: any FUSE' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand client; and __fish_seen_subcommand_from new" -l secret-at -d 'The client reads its secret from this file, below /etc, /root, /run, /tmp or /var' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand client; and __fish_seen_subcommand_from new" -l secret-option -d 'The option that tells the client where the file with its secret is' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand client; and __fish_seen_subcommand_from new" -l run-dir -d 'Where records of live mounts are kept' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand client; and __fish_seen_subcommand_from new" -l root -d 'Where unpacked images are kept' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand client; and __fish_seen_subcommand_from new" -l clients -d 'Where client definitions are read from: a directory, which may be a mounted ConfigMap, or several separated by colons, of which later ones take precedence' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand client; and __fish_seen_subcommand_from new" -l client-image -d 'Use this image for a client, given by its name or a type; takes precedence over any file' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand client; and __fish_seen_subcommand_from new" -l host-proc -d 'This is a container, and DIR its view of the host\'s /proc: do everything on the host' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand client; and __fish_seen_subcommand_from new" -l max-image-size -d 'Refuse images that are larger, unpacked' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand client; and __fish_seen_subcommand_from new" -l max-image-entries -d 'Refuse images with more files' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand client; and __fish_seen_subcommand_from new" -l path -d 'The source is a file or directory of this host'
complete -c shorefast -n "__fish_shorefast_using_subcommand client; and __fish_seen_subcommand_from new" -l foreground -d 'The client stays in the foreground'
complete -c shorefast -n "__fish_shorefast_using_subcommand client; and __fish_seen_subcommand_from new" -s h -l help -d 'Print help'
complete -c shorefast -n "__fish_shorefast_using_subcommand client; and __fish_seen_subcommand_from test" -l source -d 'What to mount' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand client; and __fish_seen_subcommand_from test" -s o -l options -d 'As in `mount -o`; with `ro` nothing is written' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand client; and __fish_seen_subcommand_from test" -l secret-file -d 'As in `mount --secret-file`' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand client; and __fish_seen_subcommand_from test" -l writable -d 'A name below the mount where files can be made, if not at its top' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand client; and __fish_seen_subcommand_from test" -l run-dir -d 'Where records of live mounts are kept' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand client; and __fish_seen_subcommand_from test" -l root -d 'Where unpacked images are kept' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand client; and __fish_seen_subcommand_from test" -l clients -d 'Where client definitions are read from: a directory, which may be a mounted ConfigMap, or several separated by colons, of which later ones take precedence' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand client; and __fish_seen_subcommand_from test" -l client-image -d 'Use this image for a client, given by its name or a type; takes precedence over any file' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand client; and __fish_seen_subcommand_from test" -l host-proc -d 'This is a container, and DIR its view of the host\'s /proc: do everything on the host' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand client; and __fish_seen_subcommand_from test" -l max-image-size -d 'Refuse images that are larger, unpacked' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand client; and __fish_seen_subcommand_from test" -l max-image-entries -d 'Refuse images with more files' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand client; and __fish_seen_subcommand_from test" -l json -d '{client, image, source, kernel, shorefast, passed, checks: [{check, outcome, detail, seconds}]}'
complete -c shorefast -n "__fish_shorefast_using_subcommand client; and __fish_seen_subcommand_from test" -s h -l help -d 'Print help'
complete -c shorefast -n "__fish_shorefast_using_subcommand client; and __fish_seen_subcommand_from check" -l run-dir -d 'Where records of live mounts are kept' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand client; and __fish_seen_subcommand_from check" -l root -d 'Where unpacked images are kept' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand client; and __fish_seen_subcommand_from check" -l clients -d 'Where client definitions are read from: a directory, which may be a mounted ConfigMap, or several separated by colons, of which later ones take precedence' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand client; and __fish_seen_subcommand_from check" -l client-image -d 'Use this image for a client, given by its name or a type; takes precedence over any file' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand client; and __fish_seen_subcommand_from check" -l host-proc -d 'This is a container, and DIR its view of the host\'s /proc: do everything on the host' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand client; and __fish_seen_subcommand_from check" -l max-image-size -d 'Refuse images that are larger, unpacked' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand client; and __fish_seen_subcommand_from check" -l max-image-entries -d 'Refuse images with more files' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand client; and __fish_seen_subcommand_from check" -s h -l help -d 'Print help'
complete -c shorefast -n "__fish_shorefast_using_subcommand client; and __fish_seen_subcommand_from help" -f -a "list" -d 'Show all clients, in the order in which a type is looked up'
complete -c shorefast -n "__fish_shorefast_using_subcommand client; and __fish_seen_subcommand_from help" -f -a "show" -d 'Show one definition, with the origin of each key'
complete -c shorefast -n "__fish_shorefast_using_subcommand client; and __fish_seen_subcommand_from help" -f -a "new" -d 'Write a commented definition to the standard output'
complete -c shorefast -n "__fish_shorefast_using_subcommand client; and __fish_seen_subcommand_from help" -f -a "test" -d 'Try a definition: mount, read, write, privileges, memory, unmount, kill; prints a report'
complete -c shorefast -n "__fish_shorefast_using_subcommand client; and __fish_seen_subcommand_from help" -f -a "check" -d 'Check definitions without using them'
complete -c shorefast -n "__fish_shorefast_using_subcommand client; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c shorefast -n "__fish_shorefast_using_subcommand demo" -l run-dir -d 'Where records of live mounts are kept' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand demo" -l root -d 'Where unpacked images are kept' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand demo" -l clients -d 'Where client definitions are read from: a directory, which may be a mounted ConfigMap, or several separated by colons, of which later ones take precedence' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand demo" -l client-image -d 'Use this image for a client, given by its name or a type; takes precedence over any file' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand demo" -l host-proc -d 'This is a container, and DIR its view of the host\'s /proc: do everything on the host' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand demo" -l max-image-size -d 'Refuse images that are larger, unpacked' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand demo" -l max-image-entries -d 'Refuse images with more files' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand demo" -l keep -d 'Keep the mount and its server for trying things out; `umount` ends both'
complete -c shorefast -n "__fish_shorefast_using_subcommand demo" -l offline -d 'Never use the network; the images must be in the store'
complete -c shorefast -n "__fish_shorefast_using_subcommand demo" -s h -l help -d 'Print help'
complete -c shorefast -n "__fish_shorefast_using_subcommand reconcile" -l run-dir -d 'Where records of live mounts are kept' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand reconcile" -l root -d 'Where unpacked images are kept' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand reconcile" -l clients -d 'Where client definitions are read from: a directory, which may be a mounted ConfigMap, or several separated by colons, of which later ones take precedence' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand reconcile" -l client-image -d 'Use this image for a client, given by its name or a type; takes precedence over any file' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand reconcile" -l host-proc -d 'This is a container, and DIR its view of the host\'s /proc: do everything on the host' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand reconcile" -l max-image-size -d 'Refuse images that are larger, unpacked' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand reconcile" -l max-image-entries -d 'Refuse images with more files' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand reconcile" -l json
complete -c shorefast -n "__fish_shorefast_using_subcommand reconcile" -s h -l help -d 'Print help'
complete -c shorefast -n "__fish_shorefast_using_subcommand install" -l to -d 'Where to install the program; default: where it is installed already, or the first suitable of /usr/local/lib/shorefast, /opt/shorefast, /var/lib/shorefast/bin, /home/kubernetes/shorefast' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand install" -l helpers -d 'Also install /sbin/mount.TYPE and umount.TYPE, which mount(8) and fstab use' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand install" -l clients-from -d 'Also copy the client definitions of this directory, such as a mounted ConfigMap, to the host\'s; those that are gone from it are removed' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand install" -l host-root -d 'Where the host\'s root directory is visible, if not at /' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand install" -l run-dir -d 'Where records of live mounts are kept' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand install" -l root -d 'Where unpacked images are kept' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand install" -l clients -d 'Where client definitions are read from: a directory, which may be a mounted ConfigMap, or several separated by colons, of which later ones take precedence' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand install" -l client-image -d 'Use this image for a client, given by its name or a type; takes precedence over any file' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand install" -l host-proc -d 'This is a container, and DIR its view of the host\'s /proc: do everything on the host' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand install" -l max-image-size -d 'Refuse images that are larger, unpacked' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand install" -l max-image-entries -d 'Refuse images with more files' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand install" -l kubelet -d 'Also install a mounter for kubelet\'s --experimental-mounter-path'
complete -c shorefast -n "__fish_shorefast_using_subcommand install" -l systemd -d 'Also install and enable systemd units: one cleans up at boot after an unclean shutdown, one gives the images a separate mount'
complete -c shorefast -n "__fish_shorefast_using_subcommand install" -l csi -d 'Also install and enable a systemd unit that is the CSI driver of this node, for clusters that should not depend on a pod for it'
complete -c shorefast -n "__fish_shorefast_using_subcommand install" -l follow -d 'Keep running: repair the installation, and follow the directory of definitions, until terminated'
complete -c shorefast -n "__fish_shorefast_using_subcommand install" -l dry-run -d 'Only show what would be done'
complete -c shorefast -n "__fish_shorefast_using_subcommand install" -s h -l help -d 'Print help'
complete -c shorefast -n "__fish_shorefast_using_subcommand uninstall" -l to -d 'Where the program is; default: searched where `install` puts it' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand uninstall" -l host-root -d 'Where the host\'s root directory is visible, if not at /' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand uninstall" -l run-dir -d 'Where records of live mounts are kept' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand uninstall" -l root -d 'Where unpacked images are kept' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand uninstall" -l clients -d 'Where client definitions are read from: a directory, which may be a mounted ConfigMap, or several separated by colons, of which later ones take precedence' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand uninstall" -l client-image -d 'Use this image for a client, given by its name or a type; takes precedence over any file' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand uninstall" -l host-proc -d 'This is a container, and DIR its view of the host\'s /proc: do everything on the host' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand uninstall" -l max-image-size -d 'Refuse images that are larger, unpacked' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand uninstall" -l max-image-entries -d 'Refuse images with more files' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand uninstall" -l dry-run -d 'Only show what would be done'
complete -c shorefast -n "__fish_shorefast_using_subcommand uninstall" -s h -l help -d 'Print help'
complete -c shorefast -n "__fish_shorefast_using_subcommand serve" -l kubelet-root -d 'kubelet\'s --root-dir; nothing outside it is touched' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand serve" -l driver-name -d 'The name of the driver in volumes and storage classes' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand serve" -l node-id -d 'The name of this machine in the cluster [default: the host\'s name]' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand serve" -l csi-socket -d 'The driver\'s socket [default: plugins/NAME/csi.sock below kubelet\'s root]' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand serve" -l listen-metrics -d 'Serve /healthz and /metrics over HTTP at this address' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand serve" -l run-dir -d 'Where records of live mounts are kept' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand serve" -l root -d 'Where unpacked images are kept' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand serve" -l clients -d 'Where client definitions are read from: a directory, which may be a mounted ConfigMap, or several separated by colons, of which later ones take precedence' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand serve" -l client-image -d 'Use this image for a client, given by its name or a type; takes precedence over any file' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand serve" -l host-proc -d 'This is a container, and DIR its view of the host\'s /proc: do everything on the host' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand serve" -l max-image-size -d 'Refuse images that are larger, unpacked' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand serve" -l max-image-entries -d 'Refuse images with more files' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand serve" -l csi -d 'A CSI driver, for Kubernetes'
complete -c shorefast -n "__fish_shorefast_using_subcommand serve" -l no-registration -d 'Do not register with kubelet: for a controller, which serves no machine'
complete -c shorefast -n "__fish_shorefast_using_subcommand serve" -l volume-health -d 'Tell kubelet how volumes are (Kubernetes 1.37 and later, feature gate CSIVolumeHealth)'
complete -c shorefast -n "__fish_shorefast_using_subcommand serve" -s h -l help -d 'Print help'
complete -c shorefast -n "__fish_shorefast_using_subcommand doctor" -l run-dir -d 'Where records of live mounts are kept' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand doctor" -l root -d 'Where unpacked images are kept' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand doctor" -l clients -d 'Where client definitions are read from: a directory, which may be a mounted ConfigMap, or several separated by colons, of which later ones take precedence' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand doctor" -l client-image -d 'Use this image for a client, given by its name or a type; takes precedence over any file' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand doctor" -l host-proc -d 'This is a container, and DIR its view of the host\'s /proc: do everything on the host' -r -F
complete -c shorefast -n "__fish_shorefast_using_subcommand doctor" -l max-image-size -d 'Refuse images that are larger, unpacked' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand doctor" -l max-image-entries -d 'Refuse images with more files' -r
complete -c shorefast -n "__fish_shorefast_using_subcommand doctor" -l json -d 'A JSON array of {subject, verdict, finding, do}'
complete -c shorefast -n "__fish_shorefast_using_subcommand doctor" -s h -l help -d 'Print help'
complete -c shorefast -n "__fish_shorefast_using_subcommand help; and not __fish_seen_subcommand_from mount umount list inspect logs image client demo reconcile install uninstall serve doctor help" -f -a "mount" -d 'Mount SOURCE at TARGET through a client from an image'
complete -c shorefast -n "__fish_shorefast_using_subcommand help; and not __fish_seen_subcommand_from mount umount list inspect logs image client demo reconcile install uninstall serve doctor help" -f -a "umount" -d 'Unmount, end the client, and leave nothing behind'
complete -c shorefast -n "__fish_shorefast_using_subcommand help; and not __fish_seen_subcommand_from mount umount list inspect logs image client demo reconcile install uninstall serve doctor help" -f -a "list" -d 'Show all mounts; never waits for a server'
complete -c shorefast -n "__fish_shorefast_using_subcommand help; and not __fish_seen_subcommand_from mount umount list inspect logs image client demo reconcile install uninstall serve doctor help" -f -a "inspect" -d 'Show everything that is known about one mount'
complete -c shorefast -n "__fish_shorefast_using_subcommand help; and not __fish_seen_subcommand_from mount umount list inspect logs image client demo reconcile install uninstall serve doctor help" -f -a "logs" -d 'Show what a mount\'s client has printed (the newest 64 KiB)'
complete -c shorefast -n "__fish_shorefast_using_subcommand help; and not __fish_seen_subcommand_from mount umount list inspect logs image client demo reconcile install uninstall serve doctor help" -f -a "image" -d 'Get, show and remove client images'
complete -c shorefast -n "__fish_shorefast_using_subcommand help; and not __fish_seen_subcommand_from mount umount list inspect logs image client demo reconcile install uninstall serve doctor help" -f -a "client" -d 'Show and check client definitions'
complete -c shorefast -n "__fish_shorefast_using_subcommand help; and not __fish_seen_subcommand_from mount umount list inspect logs image client demo reconcile install uninstall serve doctor help" -f -a "demo" -d 'Mount from a temporary server, show what runs, and clean up: an introduction'
complete -c shorefast -n "__fish_shorefast_using_subcommand help; and not __fish_seen_subcommand_from mount umount list inspect logs image client demo reconcile install uninstall serve doctor help" -f -a "reconcile" -d 'Clean up after killed processes and ended mounts'
complete -c shorefast -n "__fish_shorefast_using_subcommand help; and not __fish_seen_subcommand_from mount umount list inspect logs image client demo reconcile install uninstall serve doctor help" -f -a "install" -d 'Install Shorefast for kubelet, mount(8) and systemd; run it again to upgrade'
complete -c shorefast -n "__fish_shorefast_using_subcommand help; and not __fish_seen_subcommand_from mount umount list inspect logs image client demo reconcile install uninstall serve doctor help" -f -a "uninstall" -d 'Remove what `install` has installed, and nothing else; live mounts continue'
complete -c shorefast -n "__fish_shorefast_using_subcommand help; and not __fish_seen_subcommand_from mount umount list inspect logs image client demo reconcile install uninstall serve doctor help" -f -a "serve" -d 'Serve volumes to Kubernetes, until SIGTERM; volumes outlive it'
complete -c shorefast -n "__fish_shorefast_using_subcommand help; and not __fish_seen_subcommand_from mount umount list inspect logs image client demo reconcile install uninstall serve doctor help" -f -a "doctor" -d 'Check what is missing on this host, and show what to do about it'
complete -c shorefast -n "__fish_shorefast_using_subcommand help; and not __fish_seen_subcommand_from mount umount list inspect logs image client demo reconcile install uninstall serve doctor help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c shorefast -n "__fish_shorefast_using_subcommand help; and __fish_seen_subcommand_from image" -f -a "pull" -d 'Get an image, or update it to the newest of its name; live mounts keep theirs'
complete -c shorefast -n "__fish_shorefast_using_subcommand help; and __fish_seen_subcommand_from image" -f -a "outdated" -d 'Say which images of registries and packages have newer versions, without getting them'
complete -c shorefast -n "__fish_shorefast_using_subcommand help; and __fish_seen_subcommand_from image" -f -a "import" -d 'Import an image from a file, under a name'
complete -c shorefast -n "__fish_shorefast_using_subcommand help; and __fish_seen_subcommand_from image" -f -a "build" -d 'Build an image from distribution packages, verified, without running any of their scripts'
complete -c shorefast -n "__fish_shorefast_using_subcommand help; and __fish_seen_subcommand_from image" -f -a "export" -d 'Write an image to a file or directory, for other machines and tools; the same image has the same digest everywhere'
complete -c shorefast -n "__fish_shorefast_using_subcommand help; and __fish_seen_subcommand_from image" -f -a "push" -d 'Send an image to a registry; what the registry has already is not sent again'
complete -c shorefast -n "__fish_shorefast_using_subcommand help; and __fish_seen_subcommand_from image" -f -a "list" -d 'Show all images'
complete -c shorefast -n "__fish_shorefast_using_subcommand help; and __fish_seen_subcommand_from image" -f -a "inspect" -d 'Show everything that is known about one image'
complete -c shorefast -n "__fish_shorefast_using_subcommand help; and __fish_seen_subcommand_from image" -f -a "remove" -d 'Remove names, and images with their last name; refuses images that a live mount uses'
complete -c shorefast -n "__fish_shorefast_using_subcommand help; and __fish_seen_subcommand_from image" -f -a "gc" -d 'Remove images that have neither a name nor a user, and leftovers of killed processes'
complete -c shorefast -n "__fish_shorefast_using_subcommand help; and __fish_seen_subcommand_from client" -f -a "list" -d 'Show all clients, in the order in which a type is looked up'
complete -c shorefast -n "__fish_shorefast_using_subcommand help; and __fish_seen_subcommand_from client" -f -a "show" -d 'Show one definition, with the origin of each key'
complete -c shorefast -n "__fish_shorefast_using_subcommand help; and __fish_seen_subcommand_from client" -f -a "new" -d 'Write a commented definition to the standard output'
complete -c shorefast -n "__fish_shorefast_using_subcommand help; and __fish_seen_subcommand_from client" -f -a "test" -d 'Try a definition: mount, read, write, privileges, memory, unmount, kill; prints a report'
complete -c shorefast -n "__fish_shorefast_using_subcommand help; and __fish_seen_subcommand_from client" -f -a "check" -d 'Check definitions without using them'
