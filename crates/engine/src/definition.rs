//! In: the TOML text of client files. Out: a checked client definition. A file may set only some keys: the rest comes from the built-in
//! definition of the same name, then from the defaults. Hence two types: a [`Layer`], in which everything is optional, and the
//! [`Definition`] that results.

mod complete;
mod layer;
mod mistakes;
mod services;
mod keys;

pub use complete::Definition;
pub use keys::{Daemon, Guests, Namespace, Namespaces, Provided, ProvidedFile, SecretWay, Source, SourceWrites, parse_size};
pub use layer::{Layer, LimitLayer, NamespaceLayer, SecretLayer};
pub use services::{Service, Services, grant};

/// Parses a definition that is not layered over another; the error names line and key.
pub fn parse(text: &str) -> Result<Definition, String> {
    Layer::parse(text)?.complete()
}

impl Layer {
    /// The error names line and key of each mistake, and suggests the key that was probably meant.
    pub fn parse(text: &str) -> Result<Self, String> {
        // Whether something is missing cannot be said of what is left of a file.
        let others = |rest: Self| {
            let others = rest.complete().err().unwrap_or_default();
            others.lines().filter(|line| !line.contains("`types`")).map(str::to_owned).collect()
        };
        mistakes::parse(text, others)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shorefast_sandbox::spec::DEFAULT_SCRATCH;

    #[test]
    fn the_smallest_definition_has_sensible_defaults() {
        let definition = parse("types = [\"sshfs\"]").unwrap();
        assert_eq!(definition.command[0], "mount");
        assert_eq!(definition.kernel_types, ["fuse"]);
        assert_eq!(definition.scratch_bytes, DEFAULT_SCRATCH);
        assert_eq!(definition.namespaces.user, Namespace::Private);
    }

    const AS_ROOT_AND_DEDICATED: &str = "types = [\"a\"]\nsource = \"path\"\nsource_access = \"as-root\"\nnamespaces = { user = \"host\" }";

    const SERVICE: &str =
        "[[services]]\nasked_by = \"/bin/ask\"\nused_with = []\n[[services.run]]\nname = \"a\"\ncommand = [\"a\"]\nprogram = 1\n";

    #[test]
    fn mistakes_are_named() {
        let with_service = ["binds = [\"99999\"]", "state = \"/etc\"", "binds = [\"rpc_pipefs\"]", "copies = [\"/usr/bin/x\"]"]
            .map(|key| format!("types = [\"a\"]\n{SERVICE}{key}\n"));
        let rows = [
            ("an unknown key", "types = [\"a\"]\ntpyes = 1", "line 2"),
            ("a key that looks like one", "types = [\"a\"]\ntpyes = 1", "did you mean `types`?"),
            ("an inner key that looks like one", "types = [\"a\"]\nlimits = { memroy = \"1G\" }", "did you mean `memory`?"),
            ("a wrong type of value", "types = \"a\"", "line 1"),
            ("no types", "types = []", "`types`"),
            ("nothing to run", "types = [\"a\"]\ncommand = []", "`command`"),
            ("no target in the command", "types = [\"a\"]\ncommand = [\"x\"]", "{target}"),
            ("options of a foreign type", "types = [\"a\"]\nkernel_types = [\"x\"]\nkernel_options = { y = [\"z\"] }", "kernel_options"),
            ("any option", "types = [\"a\"]\nkernel_types = [\"x\"]\nkernel_options = { x = [\"*\"] }", "KEY*"),
            ("a size that is none", "types = [\"a\"]\nlimits = { memory = \"lots\" }", "lots"),
            ("a size of nothing", "types = [\"a\"]\nlimits = { memory = \"0\" }", "no size"),
            ("a size that overflows", "types = [\"a\"]\nlimits = { memory = \"99999999999T\" }", "no size"),
            ("host pids with private users", "types = [\"a\"]\nnamespaces = { pid = \"host\", user = \"private\" }", "namespaces"),
            ("a way to reach what is not there", "types = [\"a\"]\nsource_access = \"as-root\"", "`source_access`"),
            ("a file of the host at no place", "types = [\"a\"]\nhost_files = { \"/usr/x\" = \"/x\" }", "`host_files`"),
            ("a file of the host without a path", "types = [\"a\"]\nhost_files = { \"/etc/x\" = \"x\" }", "`host_files`"),
            ("keys at no place", "types = [\"a\"]\nsigned_by = \"vendor.pub\"", "`signed_by`"),
            ("a memory outside", "types = [\"a\"]\nremember = [\"/usr/../etc/x\"]", "`remember`"),
            ("writes to what is not there", "types = [\"a\"]\nsource_writes = \"replace\"", "`source_writes`"),
            ("root's files for a dedicated user", AS_ROOT_AND_DEDICATED, "`source_access`"),
            ("a container that cannot be", "types = [\"a\"]\ncontainer = \"a b\"", "`container`"),
            ("a file over the image's programs", "types = [\"a\"]\nprovide = { \"/usr/bin/x\" = \"\" }", "provide"),
            ("a service at a port that is none", with_service[0].as_str(), "99999"),
            ("a service's state anywhere", with_service[1].as_str(), "services"),
            ("a service that is known to run by two signs", with_service[2].as_str(), "`program`"),
            ("a service with a copy of anything", with_service[3].as_str(), "provide"),
            ("a secret without a place to go", "types = [\"a\"]\nsecret = { from_options = [\"password\"] }", "`to_option`"),
            ("a secret over the image's programs", "types = [\"a\"]\nsecret = { to_file = \"/usr/x\" }", "`secret`"),
            ("a mode that is none", "types = [\"a\"]\nprovide = { \"/etc/x\" = { content = \"\", mode = \"4755\" } }", "is no mode"),
            (
                "a password for who wants no key",
                "types = [\"a\"]\nsecret = { to_option = \"x\", password_file = \"/root/x\" }",
                "`password_file`",
            ),
            ("a form without a secret", "types = [\"a\"]\nsecret = { to_option = \"x\", form = \"y\" }", "{secret}"),
            ("a file that climbs", "types = [\"a\"]\nprovide = { \"/etc/../usr/x\" = \"\" }", "provide"),
        ];
        for (name, text, part) in rows {
            let problem = parse(text).expect_err(name);
            assert!(problem.contains(part), "{name}: {problem}");
        }
        let problem = parse("types = [\"a\"]\nzzzzzz = 1").unwrap_err();
        assert!(!problem.contains("did you mean"), "{problem}");
    }

    #[test]
    fn all_mistakes_are_named_at_once() {
        let text = "tpyes = [\"a\"]\nmounts = \"x\"\nlimits = { memroy = \"1G\", pids = 5 }\ncommand = [\"m\", \"{src}\", \"{target}\"]\n[namespaces]\nuser = \"mine\"\n";
        let problem = Layer::parse(text).unwrap_err();
        for part in ["line 1", "`types`?", "line 2", "line 3", "`memory`?", "{src}", "line 6", "`mine`"] {
            assert!(problem.contains(part), "{part}: {problem}");
        }
    }

    #[test]
    fn one_mistake_is_one() {
        let problem = Layer::parse("types = [\"a\"]\nmounst = 2\n").unwrap_err();
        assert_eq!(problem.matches("TOML parse error").count(), 1, "{problem}");
        assert!(Layer::parse("types = [\"a\"\nmounts = 2\n").is_err(), "what is no TOML is not corrected");
    }

    #[test]
    fn a_layer_overrides_key_by_key() {
        let below =
            Layer::parse("types = [\"a\"]\nimage = \"dir:/a\"\nlimits = { memory = \"1G\", pids = 5 }\nenv = { A = \"1\", B = \"1\" }\n");
        let above = Layer::parse("image = \"dir:/b\"\nlimits = { pids = 7 }\nenv = { B = \"2\" }\n");
        let definition = above.unwrap().over(below.unwrap()).complete().unwrap();
        assert_eq!(definition.types, ["a"]);
        assert_eq!(definition.image.as_deref(), Some("dir:/b"));
        assert_eq!((definition.limits.memory_bytes, definition.limits.processes), (Some(1 << 30), Some(7)));
        assert_eq!(definition.env.into_iter().collect::<Vec<_>>(), [("A".into(), "1".into()), ("B".into(), "2".into())]);
    }

    #[test]
    fn a_limit_replaces_the_default() {
        let limits = |text: &str| {
            let definition = parse(&format!("types = [\"a\"]\nlimits = {{ {text} }}")).unwrap();
            let both = |group: Option<u64>, process: Option<u64>| (group, process.is_some());
            let (group, process) = (definition.limits, definition.process_limits);
            [both(group.memory_bytes, process.memory_bytes), both(group.processes, process.processes)]
        };
        assert_eq!(limits(""), [(None, true), (None, true)]);
        assert_eq!(limits("memory = \"1G\""), [(Some(1 << 30), false), (None, true)]);
        assert_eq!(limits("pids = 9"), [(None, true), (Some(9), false)]);
        assert_eq!(limits("memory = \"unlimited\""), [(None, false), (None, true)]);
    }

    #[test]
    fn sizes() {
        assert_eq!(parse_size("65536"), Ok(65536));
        assert_eq!(parse_size("4K"), Ok(4096));
        assert_eq!(parse_size("512M"), Ok(512 << 20));
        assert_eq!(parse_size("2G"), Ok(2 << 30));
    }
}
