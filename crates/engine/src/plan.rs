//! In: request and configuration. Out: a value that describes everything that will happen.

mod display;
mod command;
mod files;
mod guest;
mod needs;
mod source;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use shorefast_broker::Policy;
use shorefast_broker::policy::Owner;
use shorefast_broker::rules::{Asked, Extra};
use shorefast_image::{Reference, nearest};
use shorefast_runtimes::{Malformed, Selector};
use shorefast_sandbox::Spec;
use shorefast_sandbox::cgroup::Limits;
use shorefast_sandbox::spec::{File, HostSource, Identity, ProcessLimits, Processes, Role};

use crate::client::{self, Client, Origin};
use crate::configuration::{self, Author, Configuration, Written};
use crate::definition::{Daemon, Definition, Namespace, Services, SourceWrites};
use crate::error::Error;
use crate::exit_policy::{self, HealPolicy, OnExit};
use crate::host_helper::{self, Helper};
use crate::host_mount::HostPlan;
use crate::mode::{self, Choice, Mode, Place};
use crate::options::{self, Item};
use crate::plan::command::{Values, expand};
use crate::plan::files::{hand_over_files, host_files, provided_files};
use crate::plan::needs::{needs, service_use};
use crate::recipe::{self, Fingerprint, Recipe};
use crate::request::{Author as RequestAuthor, ClientChoice, Existing, Request, SecretFile};
use crate::secret;

pub use files::HostFile;
pub use needs::Need;

#[derive(Clone, Debug)]
pub enum Plan {
    Client(Box<ClientPlan>),
    Host(HostPlan),
}

/// A mount through a client.
#[derive(Clone, Debug)]
pub struct ClientPlan {
    pub client: String,
    pub definition: Origin,
    pub mode: Place,
    /// Why that mode.
    pub why: String,
    pub fstype: String,
    pub source: OsString,
    pub target: PathBuf,
    /// The target's mount namespace, if it is not ours.
    pub namespace: Option<PathBuf>,
    pub root: Root,
    /// A file of public keys, of which one must have signed the image.
    pub signed_by: Option<PathBuf>,
    pub spec: Spec,
    pub policy: Policy,
    /// Services that some of the client's mounts need.
    pub services: Vec<Services>,
    /// Host files that the services of this mount need.
    pub needs: Vec<Need>,
    pub limits: Limits,
    pub daemon: Daemon,
    pub on_exit: OnExit,
    pub heal: HealPolicy,
    pub exclusive: bool,
    pub source_writes: Option<SourceWrites>,
    /// Exit statuses other than 0 with which the client ends when all is well.
    pub ends_with: Vec<i32>,
    pub host_files: Vec<HostFile>,
    pub timeout: Duration,
    pub image_timeout: Option<Duration>,
    pub existing: Existing,
    /// The input from which all this can be planned again.
    pub recipe: Recipe,
    /// The client's options, for display only.
    shown_options: String,
}

/// Where the client's files are.
#[derive(Clone, Debug)]
pub enum Root {
    Image(Reference),
    Container(Selector),
}

impl std::fmt::Display for Root {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Image(image) => image.fmt(out),
            Self::Container(selector) => selector.fmt(out),
        }
    }
}

/// What a plan depends on besides the request.
#[derive(Debug)]
pub struct Context {
    pub configuration: Configuration,
    /// The caller: the owner of the mount.
    pub owner: Owner,
}

pub fn make(request: &Request, context: &Context) -> Result<Plan, Error> {
    if let (Some(path), SecretFile::OfRoot) = (&request.secret, request.secret_file) {
        secret::require_roots(path)?;
    }
    let client = match client::find(&request.client, request.fstype.as_deref(), &context.configuration) {
        Err(error) if is_for_mount(request, &error) => return by_host(request, reason(request, &error)),
        client => client?,
    };
    let fstype = request.fstype.as_ref().unwrap_or(&client.definition.types[0]);
    let called = request.mode.or(request.container.as_ref().map(|_| Mode::Exec));
    let Choice { place, why } = mode::choose(called, client.definition.mode, || host_helper::find(fstype));
    match place {
        Place::Host => by_host(&Request { fstype: Some(fstype.clone()), ..request.clone() }, why),
        Place::Container | Place::Chroot | Place::Exec => {
            through_client(request, context.owner, client, Choice { place, why }).map(|plan| Plan::Client(Box::new(plan)))
        }
    }
}

/// The plan of an earlier mount, with the files that the caller gave then.
pub fn again(recipe: &Recipe) -> Result<ClientPlan, Error> {
    let problem = |problem| Error::Definition { file: recipe.client.clone().into(), problem };
    let definition = recipe.definition.clone().complete().map_err(problem)?;
    let written = vec![Written { by: Author::Caller, layer: recipe.definition.clone() }];
    let client = Client { name: recipe.client.clone(), origin: Origin(vec![Author::Caller]), definition, written };
    let choice = Choice { place: recipe.mode, why: "as it was before".to_owned() };
    let mut plan = through_client(&recipe.request, recipe.owner, client, choice)?;
    recipe.restore_files(&mut plan.spec);
    plan.recipe.digest = recipe.digest;
    Ok(plan)
}

/// The plan of an earlier mount by what its client's definition says now. Secrets are those of then: nobody gives them again.
pub fn anew(recipe: &Recipe, configuration: &Configuration) -> Result<ClientPlan, Error> {
    let client = match &recipe.request.client {
        ClientChoice::File(file) => client::load(file, &configuration.images)?,
        // Another client may be the first for its type by now: that would be another mount.
        ClientChoice::Named(_) | ClientChoice::ByType => client::named(&recipe.client, configuration)?,
    };
    let called = recipe.request.mode.or(recipe.request.container.as_ref().map(|_| Mode::Exec));
    let choice = match mode::choose(called, client.definition.mode, || Helper::Missing("helper".to_owned())) {
        Choice { place: Place::Host, .. } => Choice { place: recipe.mode, why: "as it was before".to_owned() },
        choice => choice,
    };
    // Its file was looked at when it was read.
    let request = Request { secret_file: SecretFile::OfCaller, ..recipe.request.clone() };
    let mut plan = through_client(&request, recipe.owner, client, choice)?;
    recipe.restore_files(&mut plan.spec);
    plan.recipe.request.secret_file = recipe.request.secret_file;
    Ok(plan)
}

/// mount(8) takes secrets only on its command line, which is world-readable, or in files that its helpers know by name.
fn by_host(request: &Request, why: String) -> Result<Plan, Error> {
    match request.secret {
        Some(_) => Err(Error::NoSecretWay { client: "mount(8)".to_owned() }),
        None => Ok(Plan::Host(HostPlan::make(request, why))),
    }
}

/// Whether a request without a client goes to mount(8): a type that no client lists, unless the caller insists on a client, and everything
/// requested with mode host.
fn is_for_mount(request: &Request, error: &Error) -> bool {
    let asked = matches!(request.mode, Some(Mode::Host));
    let by_default = matches!(request.mode, None | Some(Mode::Auto)) && request.image.is_none();
    match error {
        Error::UnknownType { .. } => asked || by_default,
        Error::NoType => asked,
        _ => false,
    }
}

fn reason(request: &Request, error: &Error) -> String {
    if request.mode == Some(Mode::Host) { "this call says so".to_owned() } else { error.to_string() }
}

fn through_client(request: &Request, owner: Owner, client: Client, choice: Choice) -> Result<ClientPlan, Error> {
    let Client { name, origin, definition, written } = client;
    let fstype = request.fstype.clone().unwrap_or_else(|| definition.types[0].clone());
    let root = root(request, &name, &definition, choice.place)?;
    let mut asked = options::parse(&request.options)?;
    let secret = secret::take_named(&mut asked.items, request, &name)?;
    let (on_exit, heal) = exit_policy::take(&mut asked.items, definition.on_exit, definition.heal)?;
    if request.author == RequestAuthor::Guest {
        guest::check(&asked, &name, &definition)?;
        asked.flags |= libc::MS_NOSUID | libc::MS_NODEV;
    }
    asked.items.extend(group_option(request, &name, &definition)?);
    let mut options = asked.with(options::parse(&definition.options.join(","))?);
    let (named, named_files) = secret::hand_over_named(&request.secrets, &name, &definition)?;
    options.items.retain(|item| !named.iter().any(|other| other.name == item.name));
    let (items, mut files) = hand_over_files(options.items, &definition);
    files.extend(named_files);
    let items = items.into_iter().chain(named).collect();
    let (mut items, secrets) = secret::hand_over(items, secret.as_deref(), &definition).map_err(|problem| problem.of(&name))?;
    files.extend(secrets);
    if choice.place == Place::Chroot {
        // In mode chroot the client builds the superblock, so it needs these flags as options.
        items.extend(options::superblock_flag_names(options.flags).map(|name| Item { name: name.to_owned(), value: None }));
    }
    // A container has all of these itself.
    let is_image = matches!(root, Root::Image(_));
    let is_free = |file: &File| !files.iter().any(|other| other.inside == file.inside);
    let provided: Vec<_> = provided_files(&definition, request).filter(|file| is_image && is_free(file)).collect();
    files.extend(provided);
    let is_free = |file: &HostFile| !files.iter().any(|other| other.inside == file.inside);
    let host_files = host_files(&definition).into_iter().filter(|file| is_image && is_free(file)).collect();
    // A client with root's rights starts services itself, and there is no broker to intercept the request.
    let services = if is_image && choice.place != Place::Chroot { definition.services.clone() } else { Vec::new() };
    let needs = needs(&services, &items);
    let limits = if is_image { definition.limits } else { Limits::default() };

    let source = source::of(&definition, &request.source);
    let identity = identity(&definition, &root, choice.place);
    let values = Values { fstype: &fstype, options: &options::join(&items), flags: &request.flags, source: &source.inside };
    let spec = Spec {
        command: expand(&definition.command, &values),
        arg0: definition.arg0.clone(),
        environment: definition.env.clone().into_iter().collect(),
        identity,
        processes: processes(&definition, &root, choice.place),
        capabilities: definition.capabilities,
        source: source.shown.map(|path| HostSource {
            path,
            access: definition.source_access.for_identity(identity),
            is_read_only: options.flags & libc::MS_RDONLY != 0,
        }),
        files,
        shown: Vec::new(),
        stand_ins: services.iter().filter_map(|services| services.asked_by.clone()).collect(),
        role: Role::Client,
        process_limits: if is_image && choice.place != Place::Chroot { definition.process_limits } else { ProcessLimits::NONE },
        scratch_bytes: definition.scratch_bytes,
    };
    let policy = Policy {
        kernel_types: definition.kernel_types.clone(),
        mounts: definition.mounts,
        flags: options.flags,
        owner,
        services: services.iter().map(service_use).collect(),
        source_seen_as: source.alias,
        asked: Asked(shorefast_broker::options::split("", options::join(&items).as_bytes())),
        kernel_options: definition
            .kernel_options
            .iter()
            .map(|(fstype, options)| Extra { fstype: fstype.clone(), options: options.clone() })
            .collect(),
    };
    let recipe = Recipe {
        request: recipe::from_anywhere(request.clone(), definition.source),
        client: name.clone(),
        definition: configuration::whole(&written),
        mode: choice.place,
        owner,
        digest: None,
        images: PathBuf::new(),
        files: Vec::new(),
    };
    Ok(ClientPlan {
        recipe,
        services,
        needs,
        limits,
        target: std::path::absolute(&request.target).unwrap_or_else(|_| request.target.clone()),
        shown_options: options::join_redacted(&items),
        source: request.source.clone(),
        namespace: request.namespace.clone(),
        timeout: request.timeout,
        image_timeout: request.image_timeout,
        existing: request.existing,
        client: name,
        definition: origin,
        mode: choice.place,
        why: choice.why,
        daemon: definition.daemon,
        on_exit,
        heal,
        exclusive: definition.exclusive,
        source_writes: definition.source_writes,
        ends_with: definition.ends_with.clone(),
        host_files,
        signed_by: definition.signed_by.clone(),
        fstype,
        root,
        spec,
        policy,
    })
}

fn root(request: &Request, client: &str, definition: &Definition, place: Place) -> Result<Root, Error> {
    if place == Place::Exec {
        let called =
            request.container.as_deref().map(str::parse).transpose().map_err(|malformed: Malformed| Error::Container(malformed.into()))?;
        if definition.signed_by.is_some() {
            return Err(Error::UnsignedContainer { client: client.to_owned() });
        }
        let selector = called.or_else(|| definition.container.clone());
        return selector.map(Root::Container).ok_or_else(|| Error::NoContainer { client: client.to_owned() });
    }
    let image = request.image.as_ref().or(definition.image.as_ref()).ok_or_else(|| Error::NoImage { client: client.to_owned() })?;
    image.parse().map(Root::Image).map_err(Error::Image)
}

/// The option by which the client is told which group files belong to.
fn group_option(request: &Request, client: &str, definition: &Definition) -> Result<Option<Item>, Error> {
    let option = |group: u32| {
        let name = definition.group_option.clone().ok_or_else(|| Error::NoGroupWay { client: client.to_owned() })?;
        Ok(Item { name, value: Some(group.to_string()) })
    };
    request.group.map(option).transpose()
}

fn identity(definition: &Definition, root: &Root, place: Place) -> Identity {
    match (root, definition.namespaces.user) {
        _ if place == Place::Chroot => Identity::HostRoot,
        (Root::Container(_), _) => Identity::ContainerRoot,
        (Root::Image(_), Namespace::Host) => Identity::DedicatedUser,
        (Root::Image(_), Namespace::Private) => Identity::UserNamespace,
    }
}

fn processes(definition: &Definition, root: &Root, place: Place) -> Processes {
    match (root, definition.namespaces.pid) {
        _ if place == Place::Chroot => Processes::Host,
        (Root::Image(_), Namespace::Host) => Processes::Host,
        (Root::Image(_), Namespace::Private) | (Root::Container(_), _) => Processes::Own,
    }
}

impl ClientPlan {
    /// Options of the caller that look like one that the definition has a use for, and are none: each with the one that was probably meant.
    /// Clients have options of their own, so this is no error; it may explain one.
    pub fn doubtful_options(&self) -> Vec<(String, String)> {
        let definition = &self.recipe.definition;
        let way = definition.secret.iter();
        let of_secret =
            way.flat_map(|way| way.from_options.iter().flatten().chain(way.with_options.iter().flatten()).chain(&way.to_option));
        let known: Vec<&str> =
            definition.files.iter().flatten().chain(of_secret).chain(&definition.group_option).map(String::as_str).collect();
        let given = options::names(&self.recipe.request.options).unwrap_or_default();
        let meant = |name: String| {
            let near = nearest(&name, known.iter().copied()).filter(|near| *near != name && name.len() > 3)?.to_owned();
            Some((name, near))
        };
        given.into_iter().filter_map(meant).collect()
    }

    /// Set: a new client takes over when this one dies.
    pub fn heals(&self) -> Option<HealPolicy> {
        (self.on_exit == OnExit::Heal).then_some(self.heal)
    }

    /// For comparison with an existing mount.
    pub fn fingerprint(&self) -> Fingerprint {
        self.recipe.fingerprint(&self.fstype, &self.root.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shorefast_sandbox::spec::{Content, Secret};

    use crate::difference::Difference;

    #[test]
    fn a_recipe_gives_the_same_plan_again_with_what_the_files_held_then() {
        let request = Request {
            fstype: Some("cifs".into()),
            options: "user=me,password=hunter2,vers=3.1.1,ro".into(),
            ..Request::new("//host/share", "/mnt")
        };
        let owner = Owner { uid: 0, gid: 0 };
        let context = Context { configuration: Configuration::default(), owner };
        let Plan::Client(plan) = make(&request, &context).unwrap() else { panic!("cifs has a client") };
        let sealed = plan.recipe.clone().with_files(&plan.spec).seal().unwrap();
        assert_eq!(rustix::io::pwrite(&sealed, b"x", 0), Err(rustix::io::Errno::PERM), "it cannot be changed");
        let kept =
            Recipe::read(std::fs::File::open(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&sealed))).unwrap()).unwrap();
        assert!(!format!("{kept:?}").contains("hunter2"));
        // The file that the option became may hold something else later; its content at that time counts.
        let plan_again =
            again(&Recipe { request: Request { options: request.options.replace("hunter2", "other"), ..kept.request.clone() }, ..kept });
        let plan_again = plan_again.unwrap();
        let secrets = |plan: &ClientPlan| {
            let given = plan.spec.files.iter().filter_map(|file| match &file.content {
                Content::Secret { secret: Secret::Given(text), .. } => Some(text.reveal().to_vec()),
                _ => None,
            });
            given.collect::<Vec<_>>()
        };
        assert_eq!(secrets(&plan_again), [b"hunter2".to_vec()]);
        let without_why = |plan: &ClientPlan| {
            let mut value = plan.to_json();
            ["why", "definition"].iter().for_each(|key| drop(value.as_object_mut().unwrap().remove(*key)));
            value
        };
        assert_eq!(without_why(&plan_again), without_why(&plan));
    }

    #[test]
    fn a_fingerprint_tells_what_differs_and_no_secret() {
        let base = Request { fstype: Some("cifs".into()), options: "user=me,password=a,ro".into(), ..Request::new("//h/s", "/mnt") };
        let fingerprint = |request: &Request| {
            let context = Context { configuration: Configuration::default(), owner: Owner { uid: 0, gid: 0 } };
            let Plan::Client(plan) = make(request, &context).unwrap() else { panic!("cifs has a client") };
            plan.fingerprint()
        };
        let rows: [(Request, &[Difference]); 6] = [
            (Request { target: "/elsewhere".into(), ..base.clone() }, &[]),
            (Request { options: "user=me,password=b,ro".into(), ..base.clone() }, &[]),
            (Request { options: "user=you,password=a,ro".into(), ..base.clone() }, &[Difference::Options]),
            (Request { options: "user=me,password=a".into(), ..base.clone() }, &[Difference::Options]),
            (Request { source: "//h/t".into(), ..base.clone() }, &[Difference::Source]),
            (Request { image: Some("dir:/x".into()), fstype: Some("smb3".into()), ..base.clone() }, &[Difference::Type, Difference::Image]),
        ];
        for (request, expected) in rows {
            assert_eq!(fingerprint(&base).differences(&fingerprint(&request)), expected, "{request:?}");
        }
    }
}
