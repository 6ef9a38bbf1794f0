# Part of nfsd.sh: a Kerberos realm with its KDC, whose files are in $realm, and what the NFS server needs in it. Clients call this
# machine server.shorefast.test, at $address.
cat >"$realm/krb5.conf" <<END
[libdefaults]
 default_realm = SHOREFAST.TEST
 dns_lookup_kdc = false
 dns_lookup_realm = false
 dns_canonicalize_hostname = false
 rdns = false
[realms]
 SHOREFAST.TEST = {
  kdc = $address:8888
 }
[domain_realm]
 .shorefast.test = SHOREFAST.TEST
END
cat >"$realm/kdc.conf" <<END
[kdcdefaults]
 kdc_listen = 8888
 kdc_tcp_listen = 8888
[realms]
 SHOREFAST.TEST = {
  database_name = $realm/principal
  key_stash_file = $realm/stash
  supported_enctypes = aes256-cts-hmac-sha1-96:normal
 }
END
export KRB5_CONFIG="$realm/krb5.conf" KRB5_KDC_PROFILE="$realm/kdc.conf" KRB5_KTNAME="$realm/server.keytab"
kdb5_util create -s -W -r SHOREFAST.TEST -P nobody-knows >/dev/null
kadmin.local >/dev/null <<END
addprinc -randkey nfs/server.shorefast.test
addprinc -randkey nfs/client.shorefast.test
ktadd -k $realm/server.keytab nfs/server.shorefast.test
ktadd -k $realm/client.keytab nfs/client.shorefast.test
END
krb5kdc
modprobe rpcsec_gss_krb5
rpc.svcgssd -n
