_shorefast() {
    local i cur prev opts cmd
    COMPREPLY=()
    if [[ "${BASH_VERSINFO[0]}" -ge 4 ]]; then
        cur="$2"
    else
        cur="${COMP_WORDS[COMP_CWORD]}"
    fi
    prev="$3"
    cmd=""
    opts=""

    for i in "${COMP_WORDS[@]:0:COMP_CWORD}"
    do
        case "${cmd},${i}" in
            ",$1")
                cmd="shorefast"
                ;;
            shorefast,client)
                cmd="shorefast__subcmd__client"
                ;;
            shorefast,demo)
                cmd="shorefast__subcmd__demo"
                ;;
            shorefast,doctor)
                cmd="shorefast__subcmd__doctor"
                ;;
            shorefast,help)
                cmd="shorefast__subcmd__help"
                ;;
            shorefast,image)
                cmd="shorefast__subcmd__image"
                ;;
            shorefast,inspect)
                cmd="shorefast__subcmd__inspect"
                ;;
            shorefast,install)
                cmd="shorefast__subcmd__install"
                ;;
            shorefast,list)
                cmd="shorefast__subcmd__list"
                ;;
            shorefast,logs)
                cmd="shorefast__subcmd__logs"
                ;;
            shorefast,mount)
                cmd="shorefast__subcmd__mount"
                ;;
            shorefast,reconcile)
                cmd="shorefast__subcmd__reconcile"
                ;;
            shorefast,serve)
                cmd="shorefast__subcmd__serve"
                ;;
            shorefast,umount)
                cmd="shorefast__subcmd__umount"
                ;;
            shorefast,uninstall)
                cmd="shorefast__subcmd__uninstall"
                ;;
            shorefast__subcmd__client,check)
                cmd="shorefast__subcmd__client__subcmd__check"
                ;;
            shorefast__subcmd__client,help)
                cmd="shorefast__subcmd__client__subcmd__help"
                ;;
            shorefast__subcmd__client,list)
                cmd="shorefast__subcmd__client__subcmd__list"
                ;;
            shorefast__subcmd__client,new)
                cmd="shorefast__subcmd__client__subcmd__new"
                ;;
            shorefast__subcmd__client,show)
                cmd="shorefast__subcmd__client__subcmd__show"
                ;;
            shorefast__subcmd__client,test)
                cmd="shorefast__subcmd__client__subcmd__test"
                ;;
            shorefast__subcmd__client__subcmd__help,check)
                cmd="shorefast__subcmd__client__subcmd__help__subcmd__check"
                ;;
            shorefast__subcmd__client__subcmd__help,help)
                cmd="shorefast__subcmd__client__subcmd__help__subcmd__help"
                ;;
            shorefast__subcmd__client__subcmd__help,list)
                cmd="shorefast__subcmd__client__subcmd__help__subcmd__list"
                ;;
            shorefast__subcmd__client__subcmd__help,new)
                cmd="shorefast__subcmd__client__subcmd__help__subcmd__new"
                ;;
            shorefast__subcmd__client__subcmd__help,show)
                cmd="shorefast__subcmd__client__subcmd__help__subcmd__show"
                ;;
            shorefast__subcmd__client__subcmd__help,test)
                cmd="shorefast__subcmd__client__subcmd__help__subcmd__test"
                ;;
            shorefast__subcmd__help,client)
                cmd="shorefast__subcmd__help__subcmd__client"
                ;;
            shorefast__subcmd__help,demo)
                cmd="shorefast__subcmd__help__subcmd__demo"
                ;;
            shorefast__subcmd__help,doctor)
                cmd="shorefast__subcmd__help__subcmd__doctor"
                ;;
            shorefast__subcmd__help,help)
                cmd="shorefast__subcmd__help__subcmd__help"
                ;;
            shorefast__subcmd__help,image)
                cmd="shorefast__subcmd__help__subcmd__image"
                ;;
            shorefast__subcmd__help,inspect)
                cmd="shorefast__subcmd__help__subcmd__inspect"
                ;;
            shorefast__subcmd__help,install)
                cmd="shorefast__subcmd__help__subcmd__install"
                ;;
            shorefast__subcmd__help,list)
                cmd="shorefast__subcmd__help__subcmd__list"
                ;;
            shorefast__subcmd__help,logs)
                cmd="shorefast__subcmd__help__subcmd__logs"
                ;;
            shorefast__subcmd__help,mount)
                cmd="shorefast__subcmd__help__subcmd__mount"
                ;;
            shorefast__subcmd__help,reconcile)
                cmd="shorefast__subcmd__help__subcmd__reconcile"
                ;;
            shorefast__subcmd__help,serve)
                cmd="shorefast__subcmd__help__subcmd__serve"
                ;;
            shorefast__subcmd__help,umount)
                cmd="shorefast__subcmd__help__subcmd__umount"
                ;;
            shorefast__subcmd__help,uninstall)
                cmd="shorefast__subcmd__help__subcmd__uninstall"
                ;;
            shorefast__subcmd__help__subcmd__client,check)
                cmd="shorefast__subcmd__help__subcmd__client__subcmd__check"
                ;;
            shorefast__subcmd__help__subcmd__client,list)
                cmd="shorefast__subcmd__help__subcmd__client__subcmd__list"
                ;;
            shorefast__subcmd__help__subcmd__client,new)
                cmd="shorefast__subcmd__help__subcmd__client__subcmd__new"
                ;;
            shorefast__subcmd__help__subcmd__client,show)
                cmd="shorefast__subcmd__help__subcmd__client__subcmd__show"
                ;;
            shorefast__subcmd__help__subcmd__client,test)
                cmd="shorefast__subcmd__help__subcmd__client__subcmd__test"
                ;;
            shorefast__subcmd__help__subcmd__image,build)
                cmd="shorefast__subcmd__help__subcmd__image__subcmd__build"
                ;;
            shorefast__subcmd__help__subcmd__image,export)
                cmd="shorefast__subcmd__help__subcmd__image__subcmd__export"
                ;;
            shorefast__subcmd__help__subcmd__image,gc)
                cmd="shorefast__subcmd__help__subcmd__image__subcmd__gc"
                ;;
            shorefast__subcmd__help__subcmd__image,import)
                cmd="shorefast__subcmd__help__subcmd__image__subcmd__import"
                ;;
            shorefast__subcmd__help__subcmd__image,inspect)
                cmd="shorefast__subcmd__help__subcmd__image__subcmd__inspect"
                ;;
            shorefast__subcmd__help__subcmd__image,list)
                cmd="shorefast__subcmd__help__subcmd__image__subcmd__list"
                ;;
            shorefast__subcmd__help__subcmd__image,outdated)
                cmd="shorefast__subcmd__help__subcmd__image__subcmd__outdated"
                ;;
            shorefast__subcmd__help__subcmd__image,pull)
                cmd="shorefast__subcmd__help__subcmd__image__subcmd__pull"
                ;;
            shorefast__subcmd__help__subcmd__image,push)
                cmd="shorefast__subcmd__help__subcmd__image__subcmd__push"
                ;;
            shorefast__subcmd__help__subcmd__image,remove)
                cmd="shorefast__subcmd__help__subcmd__image__subcmd__remove"
                ;;
            shorefast__subcmd__image,build)
                cmd="shorefast__subcmd__image__subcmd__build"
                ;;
            shorefast__subcmd__image,export)
                cmd="shorefast__subcmd__image__subcmd__export"
                ;;
            shorefast__subcmd__image,gc)
                cmd="shorefast__subcmd__image__subcmd__gc"
                ;;
            shorefast__subcmd__image,help)
                cmd="shorefast__subcmd__image__subcmd__help"
                ;;
            shorefast__subcmd__image,import)
                cmd="shorefast__subcmd__image__subcmd__import"
                ;;
            shorefast__subcmd__image,inspect)
                cmd="shorefast__subcmd__image__subcmd__inspect"
                ;;
            shorefast__subcmd__image,list)
                cmd="shorefast__subcmd__image__subcmd__list"
                ;;
            shorefast__subcmd__image,outdated)
                cmd="shorefast__subcmd__image__subcmd__outdated"
                ;;
            shorefast__subcmd__image,pull)
                cmd="shorefast__subcmd__image__subcmd__pull"
                ;;
            shorefast__subcmd__image,push)
                cmd="shorefast__subcmd__image__subcmd__push"
                ;;
            shorefast__subcmd__image,remove)
                cmd="shorefast__subcmd__image__subcmd__remove"
                ;;
            shorefast__subcmd__image__subcmd__help,build)
                cmd="shorefast__subcmd__image__subcmd__help__subcmd__build"
                ;;
            shorefast__subcmd__image__subcmd__help,export)
                cmd="shorefast__subcmd__image__subcmd__help__subcmd__export"
                ;;
            shorefast__subcmd__image__subcmd__help,gc)
                cmd="shorefast__subcmd__image__subcmd__help__subcmd__gc"
                ;;
            shorefast__subcmd__image__subcmd__help,help)
                cmd="shorefast__subcmd__image__subcmd__help__subcmd__help"
                ;;
            shorefast__subcmd__image__subcmd__help,import)
                cmd="shorefast__subcmd__image__subcmd__help__subcmd__import"
                ;;
            shorefast__subcmd__image__subcmd__help,inspect)
                cmd="shorefast__subcmd__image__subcmd__help__subcmd__inspect"
                ;;
            shorefast__subcmd__image__subcmd__help,list)
                cmd="shorefast__subcmd__image__subcmd__help__subcmd__list"
                ;;
            shorefast__subcmd__image__subcmd__help,outdated)
                cmd="shorefast__subcmd__image__subcmd__help__subcmd__outdated"
                ;;
            shorefast__subcmd__image__subcmd__help,pull)
                cmd="shorefast__subcmd__image__subcmd__help__subcmd__pull"
                ;;
            shorefast__subcmd__image__subcmd__help,push)
                cmd="shorefast__subcmd__image__subcmd__help__subcmd__push"
                ;;
            shorefast__subcmd__image__subcmd__help,remove)
                cmd="shorefast__subcmd__image__subcmd__help__subcmd__remove"
                ;;
            *)
                ;;
        esac
    done

    case "${cmd}" in
        shorefast)
            opts="-h -V --run-dir --root --clients --client-image --host-proc --max-image-size --max-image-entries --help --version mount umount list inspect logs image client demo reconcile install uninstall serve doctor help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 1 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --run-dir)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --root)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --clients)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --client-image)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --host-proc)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-image-size)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-image-entries)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        shorefast__subcmd__client)
            opts="-h --run-dir --root --clients --client-image --host-proc --max-image-size --max-image-entries --help list show new test check help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --run-dir)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --root)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --clients)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --client-image)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --host-proc)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-image-size)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-image-entries)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        shorefast__subcmd__client__subcmd__check)
            opts="-h --run-dir --root --clients --client-image --host-proc --max-image-size --max-image-entries --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --run-dir)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --root)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --clients)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --client-image)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --host-proc)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-image-size)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-image-entries)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        shorefast__subcmd__client__subcmd__help)
            opts="list show new test check help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        shorefast__subcmd__client__subcmd__help__subcmd__check)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        shorefast__subcmd__client__subcmd__help__subcmd__help)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        shorefast__subcmd__client__subcmd__help__subcmd__list)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        shorefast__subcmd__client__subcmd__help__subcmd__new)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        shorefast__subcmd__client__subcmd__help__subcmd__show)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        shorefast__subcmd__client__subcmd__help__subcmd__test)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        shorefast__subcmd__client__subcmd__list)
            opts="-h --json --run-dir --root --clients --client-image --host-proc --max-image-size --max-image-entries --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --run-dir)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --root)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --clients)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --client-image)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --host-proc)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-image-size)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-image-entries)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        shorefast__subcmd__client__subcmd__new)
            opts="-h --image --type --kernel-type --path --foreground --secret-at --secret-option --run-dir --root --clients --client-image --host-proc --max-image-size --max-image-entries --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --image)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --type)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --kernel-type)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --secret-at)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --secret-option)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --run-dir)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --root)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --clients)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --client-image)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --host-proc)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-image-size)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-image-entries)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        shorefast__subcmd__client__subcmd__show)
            opts="-h --json --run-dir --root --clients --client-image --host-proc --max-image-size --max-image-entries --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --run-dir)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --root)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --clients)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --client-image)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --host-proc)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-image-size)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-image-entries)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        shorefast__subcmd__client__subcmd__test)
            opts="-o -h --source --options --secret-file --writable --json --run-dir --root --clients --client-image --host-proc --max-image-size --max-image-entries --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --source)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --options)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -o)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --secret-file)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --writable)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --run-dir)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --root)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --clients)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --client-image)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --host-proc)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-image-size)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-image-entries)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        shorefast__subcmd__demo)
            opts="-h --keep --offline --run-dir --root --clients --client-image --host-proc --max-image-size --max-image-entries --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --run-dir)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --root)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --clients)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --client-image)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --host-proc)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-image-size)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-image-entries)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        shorefast__subcmd__doctor)
            opts="-h --json --run-dir --root --clients --client-image --host-proc --max-image-size --max-image-entries --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --run-dir)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --root)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --clients)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --client-image)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --host-proc)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-image-size)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-image-entries)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        shorefast__subcmd__help)
            opts="mount umount list inspect logs image client demo reconcile install uninstall serve doctor help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        shorefast__subcmd__help__subcmd__client)
            opts="list show new test check"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        shorefast__subcmd__help__subcmd__client__subcmd__check)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        shorefast__subcmd__help__subcmd__client__subcmd__list)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        shorefast__subcmd__help__subcmd__client__subcmd__new)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        shorefast__subcmd__help__subcmd__client__subcmd__show)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        shorefast__subcmd__help__subcmd__client__subcmd__test)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        shorefast__subcmd__help__subcmd__demo)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        shorefast__subcmd__help__subcmd__doctor)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        shorefast__subcmd__help__subcmd__help)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        shorefast__subcmd__help__subcmd__image)
            opts="pull outdated import build export push list inspect remove gc"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        shorefast__subcmd__help__subcmd__image__subcmd__build)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        shorefast__subcmd__help__subcmd__image__subcmd__export)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        shorefast__subcmd__help__subcmd__image__subcmd__gc)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        shorefast__subcmd__help__subcmd__image__subcmd__import)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        shorefast__subcmd__help__subcmd__image__subcmd__inspect)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        shorefast__subcmd__help__subcmd__image__subcmd__list)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        shorefast__subcmd__help__subcmd__image__subcmd__outdated)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        shorefast__subcmd__help__subcmd__image__subcmd__pull)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        shorefast__subcmd__help__subcmd__image__subcmd__push)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        shorefast__subcmd__help__subcmd__image__subcmd__remove)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        shorefast__subcmd__help__subcmd__inspect)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        shorefast__subcmd__help__subcmd__install)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        shorefast__subcmd__help__subcmd__list)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        shorefast__subcmd__help__subcmd__logs)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        shorefast__subcmd__help__subcmd__mount)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        shorefast__subcmd__help__subcmd__reconcile)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        shorefast__subcmd__help__subcmd__serve)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        shorefast__subcmd__help__subcmd__umount)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        shorefast__subcmd__help__subcmd__uninstall)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        shorefast__subcmd__image)
            opts="-h --run-dir --root --clients --client-image --host-proc --max-image-size --max-image-entries --help pull outdated import build export push list inspect remove gc help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --run-dir)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --root)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --clients)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --client-image)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --host-proc)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-image-size)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-image-entries)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        shorefast__subcmd__image__subcmd__build)
            opts="-h --packages --suite --mirror --keyring --lock --write-lock --offline --run-dir --root --clients --client-image --host-proc --max-image-size --max-image-entries --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --packages)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --suite)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --mirror)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --keyring)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --lock)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --write-lock)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --run-dir)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --root)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --clients)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --client-image)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --host-proc)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-image-size)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-image-entries)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        shorefast__subcmd__image__subcmd__export)
            opts="-h --run-dir --root --clients --client-image --host-proc --max-image-size --max-image-entries --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --run-dir)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --root)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --clients)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --client-image)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --host-proc)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-image-size)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-image-entries)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        shorefast__subcmd__image__subcmd__gc)
            opts="-h --json --run-dir --root --clients --client-image --host-proc --max-image-size --max-image-entries --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --run-dir)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --root)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --clients)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --client-image)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --host-proc)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-image-size)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-image-entries)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        shorefast__subcmd__image__subcmd__help)
            opts="pull outdated import build export push list inspect remove gc help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        shorefast__subcmd__image__subcmd__help__subcmd__build)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        shorefast__subcmd__image__subcmd__help__subcmd__export)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        shorefast__subcmd__image__subcmd__help__subcmd__gc)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        shorefast__subcmd__image__subcmd__help__subcmd__help)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        shorefast__subcmd__image__subcmd__help__subcmd__import)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        shorefast__subcmd__image__subcmd__help__subcmd__inspect)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        shorefast__subcmd__image__subcmd__help__subcmd__list)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        shorefast__subcmd__image__subcmd__help__subcmd__outdated)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        shorefast__subcmd__image__subcmd__help__subcmd__pull)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        shorefast__subcmd__image__subcmd__help__subcmd__push)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        shorefast__subcmd__image__subcmd__help__subcmd__remove)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        shorefast__subcmd__image__subcmd__import)
            opts="-h --run-dir --root --clients --client-image --host-proc --max-image-size --max-image-entries --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --run-dir)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --root)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --clients)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --client-image)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --host-proc)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-image-size)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-image-entries)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        shorefast__subcmd__image__subcmd__inspect)
            opts="-h --json --run-dir --root --clients --client-image --host-proc --max-image-size --max-image-entries --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --run-dir)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --root)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --clients)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --client-image)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --host-proc)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-image-size)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-image-entries)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        shorefast__subcmd__image__subcmd__list)
            opts="-h --json --run-dir --root --clients --client-image --host-proc --max-image-size --max-image-entries --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --run-dir)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --root)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --clients)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --client-image)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --host-proc)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-image-size)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-image-entries)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        shorefast__subcmd__image__subcmd__outdated)
            opts="-h --json --run-dir --root --clients --client-image --host-proc --max-image-size --max-image-entries --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --run-dir)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --root)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --clients)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --client-image)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --host-proc)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-image-size)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-image-entries)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        shorefast__subcmd__image__subcmd__pull)
            opts="-h --all --run-dir --root --clients --client-image --host-proc --max-image-size --max-image-entries --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --run-dir)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --root)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --clients)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --client-image)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --host-proc)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-image-size)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-image-entries)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        shorefast__subcmd__image__subcmd__push)
            opts="-h --run-dir --root --clients --client-image --host-proc --max-image-size --max-image-entries --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --run-dir)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --root)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --clients)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --client-image)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --host-proc)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-image-size)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-image-entries)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        shorefast__subcmd__image__subcmd__remove)
            opts="-h --run-dir --root --clients --client-image --host-proc --max-image-size --max-image-entries --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --run-dir)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --root)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --clients)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --client-image)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --host-proc)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-image-size)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-image-entries)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        shorefast__subcmd__inspect)
            opts="-h --json --run-dir --root --clients --client-image --host-proc --max-image-size --max-image-entries --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --run-dir)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --root)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --clients)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --client-image)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --host-proc)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-image-size)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-image-entries)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        shorefast__subcmd__install)
            opts="-h --to --kubelet --helpers --systemd --csi --clients-from --host-root --follow --dry-run --run-dir --root --clients --client-image --host-proc --max-image-size --max-image-entries --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --to)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --helpers)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --clients-from)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --host-root)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --run-dir)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --root)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --clients)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --client-image)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --host-proc)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-image-size)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-image-entries)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        shorefast__subcmd__list)
            opts="-h --json --run-dir --root --clients --client-image --host-proc --max-image-size --max-image-entries --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --run-dir)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --root)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --clients)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --client-image)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --host-proc)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-image-size)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-image-entries)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        shorefast__subcmd__logs)
            opts="-f -h --follow --run-dir --root --clients --client-image --host-proc --max-image-size --max-image-entries --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --run-dir)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --root)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --clients)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --client-image)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --host-proc)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-image-size)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-image-entries)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        shorefast__subcmd__mount)
            opts="-t -o -h --type --options --secret-file --secret-fd --client --client-file --image --container --mode --over --offline --dry-run --unit --timeout --image-timeout --run-dir --root --clients --client-image --host-proc --max-image-size --max-image-entries --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --type)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -t)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --options)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -o)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --secret-file)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --secret-fd)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --client)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --client-file)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --image)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --container)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --mode)
                    COMPREPLY=($(compgen -W "container chroot exec host auto" -- "${cur}"))
                    return 0
                    ;;
                --timeout)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --image-timeout)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --run-dir)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --root)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --clients)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --client-image)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --host-proc)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-image-size)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-image-entries)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        shorefast__subcmd__reconcile)
            opts="-h --json --run-dir --root --clients --client-image --host-proc --max-image-size --max-image-entries --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --run-dir)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --root)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --clients)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --client-image)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --host-proc)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-image-size)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-image-entries)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        shorefast__subcmd__serve)
            opts="-h --csi --kubelet-root --driver-name --node-id --csi-socket --no-registration --volume-health --listen-metrics --run-dir --root --clients --client-image --host-proc --max-image-size --max-image-entries --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --kubelet-root)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --driver-name)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --node-id)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --csi-socket)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --listen-metrics)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --run-dir)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --root)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --clients)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --client-image)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --host-proc)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-image-size)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-image-entries)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        shorefast__subcmd__umount)
            opts="-l -f -h --lazy --force --run-dir --root --clients --client-image --host-proc --max-image-size --max-image-entries --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --run-dir)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --root)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --clients)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --client-image)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --host-proc)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-image-size)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-image-entries)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        shorefast__subcmd__uninstall)
            opts="-h --to --host-root --dry-run --run-dir --root --clients --client-image --host-proc --max-image-size --max-image-entries --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --to)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --host-root)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --run-dir)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --root)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --clients)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --client-image)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --host-proc)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-image-size)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-image-entries)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
    esac
}

if [[ "${BASH_VERSINFO[0]}" -eq 4 && "${BASH_VERSINFO[1]}" -ge 4 || "${BASH_VERSINFO[0]}" -gt 4 ]]; then
    complete -F _shorefast -o nosort -o bashdefault -o default shorefast
else
    complete -F _shorefast -o bashdefault -o default shorefast
fi
