#!/bin/sh
# pid 1 of a guest. The kernel gave us SCRATCH, a directory of the host, through its command line; the host's / is our /, read-only.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
. "$SCRATCH/settings"

insmod "$modules/kernel/fs/overlayfs/overlay.ko"
mount -n -t tmpfs -o mode=755,size=70% tmpfs /mnt
mkdir /mnt/upper /mnt/work /mnt/root
mount -n -t overlay -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work overlay /mnt/root
cd /mnt/root || exit

mount -n -t proc proc proc
mount -n -t sysfs sysfs sys
mount -n -t cgroup2 cgroup2 sys/fs/cgroup
mount -n -t devtmpfs devtmpfs dev
mkdir -p dev/pts dev/shm
mount -n -t devpts devpts dev/pts
mount -n -t tmpfs tmpfs dev/shm
mount -n -t tmpfs -o mode=755 tmpfs run
mkdir -p run/lock run/guest oldroot "lib/modules/$(uname -r)"
mount -n --bind "$modules" "lib/modules/$(uname -r)"
mount -n -t hostfs -o "$scratch" hostfs run/guest

# Not chroot: a process in a chroot may not create user namespaces.
pivot_root . oldroot
cd / || exit
umount -n -l /oldroot
rmdir /oldroot
ip link set lo up
modprobe -a fuse loop
# Built in since 7.0.
modprobe -q ipv6

setsid -w sh /run/guest/command </dev/null
echo $? >/run/guest/status
exec /run/guest/xtask power-off
