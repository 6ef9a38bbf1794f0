//! In: a decoded mount call. Out: an order for `perform`, or a refusal. Decides only.

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::call::MountCall;
use crate::error::{Refusal, Rule};
use crate::flags::{self, Flags};
use crate::options::{self, Fuse, Item};
use crate::rules::{self, Asked, Extra};

/// The broker's rules for one mount, part of the plan.
#[derive(Clone, Debug, Serialize)]
pub struct Policy {
    /// `fuse` stands for every FUSE subtype; anything else is exactly that type. The kernel parses the data of these filesystems with full
    /// privilege: this list is the security boundary.
    pub kernel_types: Vec<String>,
    /// How many mounts the client may make, one after the other; only the last one stays.
    pub mounts: u32,
    /// The caller's flags, a mount(2) flag word. The client can add flags, not remove them.
    pub flags: u64,
    /// The mount's owner on the host: FUSE admits only that user unless the client passes allow_other.
    pub owner: Owner,
    /// Which mounts need which of the client's services.
    pub services: Vec<ServiceUse>,
    /// If the client sees its source at another path, the host's mount table still gets the real one.
    pub source_seen_as: Option<SourceAlias>,
    /// The options the client is called with.
    #[serde(skip)]
    pub asked: Asked,
    /// Further options it may pass to the kernel, asked for or not.
    pub kernel_options: Vec<Extra>,
}

/// Services, and the options that require them, as the client passes them to the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ServiceUse {
    pub names: Vec<String>,
    pub start: Start,
    /// One of these is present (`x*`: any that begins with x),
    pub with: Vec<String>,
    /// and none of these.
    pub unless: Vec<String>,
}

/// When services are started that do not run yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Start {
    WhenAsked,
    BeforeTheMount,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Owner {
    pub uid: u32,
    pub gid: u32,
}

#[derive(Clone, Debug, Serialize)]
pub struct SourceAlias {
    pub inside: Vec<u8>,
    pub outside: Vec<u8>,
}

/// A superblock that the policy allows, in the kernel's terms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    pub fstype: String,
    pub subtype: Option<String>,
    pub source: Vec<u8>,
    pub flags: Flags,
    pub options: Options,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Options {
    Fuse(Fuse),
    Items(Vec<Item>),
}

impl Policy {
    /// Judges a copied call. The mount point is checked elsewhere (`view`): the policy knows no paths.
    pub fn judge(&self, call: &MountCall) -> Result<Order, Refusal> {
        let asked = flags::translate(call.flags).map_err(|what| Refusal::policy(Errno::PERM, format!("the client asked for {what}")))?;
        if !self.allows(&call.fstype) {
            let reason = format!("the client may not mount type {:?} (its kernel_types: {})", call.fstype, self.kernel_types.join(", "));
            return Err(Refusal::by_rule(Rule::Type, Errno::NODEV, reason));
        }
        let caller = flags::translate(self.flags).map_err(|what| Refusal::policy(Errno::INVAL, format!("the caller asked for {what}")))?;
        let (fstype, subtype) = match call.fstype.split_once('.') {
            Some((fstype, subtype)) => (fstype.to_owned(), Some(subtype.to_owned())),
            None => (call.fstype.clone(), None),
        };
        if rules::has_control(&call.source) {
            return Err(Refusal::policy(Errno::INVAL, "there are control characters in the client's source"));
        }
        let source = self.source_outside(&call.source);
        let options = self.options(&fstype, &call.data)?;
        Ok(Order { fstype, subtype, source, flags: asked.and(&caller), options })
    }

    /// The services that a mount with these options needs as long as it exists.
    pub fn services_used_by(&self, data: &[u8]) -> impl Iterator<Item = &ServiceUse> {
        let options = String::from_utf8_lossy(data).into_owned();
        self.services.iter().filter(move |services| services.is_used_by(options.split(',')))
    }

    /// The services that start when the client asks.
    pub(crate) fn services_for_asking(&self) -> Vec<String> {
        self.services.iter().filter(|services| services.start == Start::WhenAsked).flat_map(|services| services.names.clone()).collect()
    }

    /// The source by its path on the host.
    pub(crate) fn source_outside(&self, source: &[u8]) -> Vec<u8> {
        match &self.source_seen_as {
            Some(alias) if alias.inside == source => alias.outside.clone(),
            _ => source.to_vec(),
        }
    }

    pub(crate) fn allows(&self, fstype: &str) -> bool {
        let subtype_ok = |subtype: &str| !subtype.is_empty() && subtype.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.+".contains(&b));
        self.kernel_types
            .iter()
            .any(|allowed| allowed == fstype || (allowed == "fuse" && fstype.strip_prefix("fuse.").is_some_and(subtype_ok)))
    }

    fn options(&self, fstype: &str, data: &[u8]) -> Result<Options, Refusal> {
        if fstype == "fuse" || fstype == "fuseblk" {
            let text = std::str::from_utf8(data).map_err(|_| Refusal::policy(Errno::INVAL, "FUSE options that are not text"))?;
            let mut fuse = options::fuse(text, &self.asked.0)?;
            fuse.rest.extend([Item::value("user_id", self.owner.uid), Item::value("group_id", self.owner.gid)]);
            return Ok(Options::Fuse(fuse));
        }
        let items = options::split(fstype, data);
        rules::judge(fstype, &items, &self.asked, &self.kernel_options)?;
        Ok(Options::Items(items))
    }
}

impl ServiceUse {
    pub fn is_used_by<'a>(&self, mut options: impl Iterator<Item = &'a str> + Clone) -> bool {
        let is = |option: &str, one: &str| one.strip_suffix('*').map_or_else(|| one == option, |start| option.starts_with(start));
        let has = |option: &str, wanted: &[String]| wanted.iter().any(|one| is(option, one));
        options.clone().any(|option| has(option, &self.with)) && !options.any(|option| has(option, &self.unless))
    }
}

impl Order {
    pub fn is_fuse(&self) -> bool {
        matches!(self.options, Options::Fuse(_))
    }

    /// The type as shown in the mount table.
    pub fn full_type(&self) -> String {
        self.subtype.as_ref().map_or_else(|| self.fstype.clone(), |subtype| format!("{}.{subtype}", self.fstype))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::By;

    fn policy(types: &[&str]) -> Policy {
        Policy {
            kernel_types: types.iter().map(|text| (*text).to_owned()).collect(),
            mounts: 1,
            flags: 0,
            owner: Owner { uid: 7, gid: 8 },
            services: Vec::new(),
            source_seen_as: None,
            asked: Asked::default(),
            kernel_options: Vec::new(),
        }
    }

    fn call(fstype: &str, flags: u64, data: &str) -> MountCall {
        MountCall { source: b"src".to_vec(), target: b"/t".to_vec(), fstype: fstype.into(), flags, data: data.into() }
    }

    #[test]
    fn only_listed_types_are_allowed() {
        let fuse = "fd=3,rootmode=40000,user_id=0,group_id=0";
        let rows: &[(&[&str], &str, &str, bool)] = &[
            (&["tmpfs"], "tmpfs", "", true),
            (&["tmpfs"], "ext4", "", false),
            (&["tmpfs"], "tmpfs.x", "", false),
            (&["tmpfs"], "", "", false),
            (&["tmpfs"], "TMPFS", "", false),
            (&["fuse"], "fuse.sshfs", fuse, true),
            (&["fuse"], "fuse", fuse, true),
            (&["fuse"], "fuse.", fuse, false),
            (&["fuse"], "fuse.a b", fuse, false),
            (&["fuse"], "fuseblk", fuse, false),
            (&["fuse.sshfs"], "fuse.sshfs", fuse, true),
            (&["fuse.sshfs"], "fuse.bindfs", fuse, false),
            (&["fuse.sshfs"], "fuse", fuse, false),
            (&[], "tmpfs", "", false),
        ];
        for (types, fstype, data, allowed) in rows {
            assert_eq!(policy(types).judge(&call(fstype, 0, data)).is_ok(), *allowed, "{types:?} {fstype:?}");
        }
    }

    #[test]
    fn refuses_a_bind_in_disguise() {
        let refusal = policy(&["tmpfs"]).judge(&call("tmpfs", libc::MS_BIND | libc::MS_RDONLY, "")).unwrap_err();
        assert_eq!((refusal.errno, refusal.by), (Errno::PERM, By::Policy(Rule::Fixed)));
    }

    #[test]
    fn the_owner_is_the_callers_not_the_clients() {
        let order = policy(&["fuse"]).judge(&call("fuse.x", 0, "fd=3,rootmode=40000,user_id=0,group_id=0")).unwrap();
        let Options::Fuse(fuse) = order.options else { panic!("not FUSE") };
        assert_eq!(fuse.rest, [Item::value("rootmode", "40000"), Item::value("user_id", 7), Item::value("group_id", 8)]);
    }

    #[test]
    fn the_callers_flags_cannot_be_taken_away() {
        let policy = Policy { flags: libc::MS_RDONLY | libc::MS_NOEXEC, ..policy(&["tmpfs"]) };
        let order = policy.judge(&call("tmpfs", 0, "")).unwrap();
        assert_eq!(order.flags.superblock, ["ro"]);
        assert!(order.flags.word() & libc::MS_NOEXEC != 0);
    }

    #[test]
    fn options_tell_which_services_are_used() {
        let words = |text: &[&str]| text.iter().map(|word| (*word).to_owned()).collect();
        let locks =
            ServiceUse { names: words(&["locks"]), start: Start::WhenAsked, with: words(&["vers=3", "v3"]), unless: words(&["nolock"]) };
        let keys = ServiceUse { names: words(&["keys"]), start: Start::BeforeTheMount, with: words(&["sec=krb5*"]), unless: Vec::new() };
        let policy = Policy { services: vec![locks, keys], ..policy(&["nfs"]) };
        let rows: [(&str, &[&str]); 10] = [
            ("addr=1,vers=3", &["locks"]),
            ("v3", &["locks"]),
            ("vers=3,nolock", &[]),
            ("vers=4.2", &[]),
            ("xvers=3", &[]),
            ("", &[]),
            ("sec=krb5,vers=4.2", &["keys"]),
            ("sec=krb5p:krb5i", &["keys"]),
            ("xsec=krb5,sec=sys", &[]),
            ("vers=3,sec=krb5i", &["locks", "keys"]),
        ];
        for (options, used) in rows {
            let names: Vec<_> = policy.services_used_by(options.as_bytes()).flat_map(|services| &services.names).collect();
            assert_eq!(names, used, "{options}");
        }
        assert_eq!(policy.services_for_asking(), ["locks"]);
    }

    #[test]
    fn the_host_sees_the_callers_source() {
        let alias = SourceAlias { inside: b"src".to_vec(), outside: b"/srv/data".to_vec() };
        let policy = Policy { source_seen_as: Some(alias), ..policy(&["tmpfs"]) };
        assert_eq!(policy.judge(&call("tmpfs", 0, "")).unwrap().source, b"/srv/data");
    }
}
