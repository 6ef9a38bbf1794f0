#!/bin/sh
# The first process of the machine that is the NFS server: it has its own network, mounts, processes and name. Exports $1, and is
# called nfs-server, at $2; in a Kerberos realm, if $3 is a directory for that. Says `ready` when it serves, and ends when its output is no longer read.
set -e
share=$1 address=$2 realm=$3
ip link set lo up
mount -t tmpfs -o mode=755 tmpfs /run
mount -t tmpfs -o mode=755 tmpfs /var/lib
mkdir -p /run/rpcbind /run/rpc_pipefs /var/lib/nfs/sm /var/lib/nfs/sm.bak /var/lib/nfs/v4recovery /var/lib/nfs/nfsdcld
touch /var/lib/nfs/etab /var/lib/nfs/rmtab
chown statd /var/lib/nfs /var/lib/nfs/sm /var/lib/nfs/sm.bak
# Without these, the first lock waits for most of a minute: clients of before a restart could want theirs back.
modprobe -a lockd nfsd
printf 3 >/sys/module/lockd/parameters/nlm_timeout
printf 3 >/sys/module/lockd/parameters/nlm_grace_period
mount -t nfsd nfsd /proc/fs/nfsd
mount -t rpc_pipefs rpc_pipefs /run/rpc_pipefs
rpcbind -w
rpc.statd --no-notify
echo "$share *(rw,sync,no_root_squash,no_subtree_check,insecure,fsid=0${realm:+,sec=sys:krb5:krb5i:krb5p})" >/run/exports
mount --bind /run/exports /etc/exports
# By its name it tells clients of a restart.
hostname nfs-server
echo "$address ${realm:+server.shorefast.test} nfs-server" >/run/hosts
mount --bind /run/hosts /etc/hosts
[ -z "$realm" ] || . "${0%/*}/realm.sh"
exportfs -ra
rpc.mountd
nfsdcld
echo 10 >/proc/fs/nfsd/nfsv4leasetime
echo 10 >/proc/fs/nfsd/nfsv4gracetime
rpc.nfsd 4
echo ready
cat >/dev/null
rpc.nfsd 0
