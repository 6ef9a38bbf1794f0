//! The worker's side: one job, one answer, and the end of the process.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use shorefast_broker::policy::Owner;
use shorefast_engine::error::Failure;
use shorefast_engine::mount::Mounter;
use shorefast_engine::plan::{self, Context, Plan};
use shorefast_engine::publish::Made;
use shorefast_engine::records::Records;
use shorefast_engine::{
    Error, Installation, Request, elsewhere, existing, hang, list, options, publish, refresh, release, unmount, unserved, upgrade, usage,
};
use shorefast_image::{Progress, Silent, Task};
use shorefast_sandbox::cgroup;

use crate::base;
use crate::job::{Answer, Cgroups, Checked, Directory, Job, Operation, Outcome};
use crate::wire;

/// The body of [`crate::ask::COMMAND`]. Returns an exit code that callers need not check.
pub fn run() -> u8 {
    let Ok((socket, job, secrets)) = take_job() else { return 2 };
    let answer = || u8::from(wire::send(&socket, &perform(&job, &secrets), &[]).is_err());
    match (&job.operation, job.cgroups) {
        (Operation::Mount(_) | Operation::MountBelow { .. } | Operation::Base { .. } | Operation::Upgrade { .. }, Cgroups::Own) => {
            cgroup::run_outside_callers(answer)
        }
        _ => answer(),
    }
}

/// Of this process, which does one job.
static DOWNLOADS: AtomicU32 = AtomicU32::new(0);

/// Shows nothing, and counts.
struct Counted;

impl Progress for Counted {
    fn begin(&self, _: &str, _: Option<u64>) -> Box<dyn Task> {
        DOWNLOADS.fetch_add(1, Ordering::Relaxed);
        Box::new(Silent)
    }
}

fn take_job() -> io::Result<(UnixStream, Job, Vec<OwnedFd>)> {
    // Programs that this process starts do not inherit it: they would keep its end open.
    let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    let (job, secrets) = wire::receive(&socket)?;
    Ok((socket, job, secrets))
}

fn perform(job: &Job, secrets: &[OwnedFd]) -> Outcome {
    let mut warnings = Vec::new();
    let result = answer(job, secrets, &mut warnings).map_err(|failure| *failure);
    Outcome { result, warnings, downloads: DOWNLOADS.load(Ordering::Relaxed) }
}

fn answer(job: &Job, secrets: &[OwnedFd], warnings: &mut Vec<Failure>) -> Result<Answer, Box<Failure>> {
    let records = Records::at(&job.installation.run_dir);
    Ok(match &job.operation {
        Operation::Mount(request) => mount(&with_secret(request, secrets), &job.installation, warnings)?,
        Operation::MountBelow { request, target, directory, secrets: names } => {
            let request = with_named_secrets(request, names, secrets);
            let made = match directory {
                Directory::Exists => publish::check(target).map(|()| Made::Before)?,
                Directory::Made => publish::make(target)?,
            };
            mount(&request, &job.installation, warnings).inspect_err(|_| publish::unmake(target, made))?
        }
        Operation::Refresh { request, secrets: names } => {
            let Plan::Client(plan) = plan(&with_named_secrets(request, names, secrets), &job.installation, warnings)? else {
                return Err(Error::NotOurs { path: request.target.clone() }.into());
            };
            refresh::secrets(&records, &plan).map(|()| Answer::Refreshed)?
        }
        Operation::Publish(wanted) => publish::copy(&records, wanted).map(|()| Answer::Published)?,
        Operation::Unpublish(target) => publish::remove(&records, target).map(|()| Answer::Unpublished)?,
        Operation::Unstage(staged) => publish::unstage(&records, staged).map(|()| Answer::Unpublished)?,
        Operation::Usage { target, label } => usage::of(&records, target, label).map(Answer::Usage)?,
        Operation::Unserved { label } => Answer::Unserved(unserved::of(&records, label.as_deref())?),
        Operation::Existing(request) => match plan(&with_secret(request, secrets), &job.installation, warnings)? {
            Plan::Client(plan) => {
                Answer::Existing(existing::compare(&records, &plan)?.map(|(record, differs)| (Box::new(record), differs)))
            }
            _ => Answer::Existing(None),
        },
        Operation::Check(request) => check(request, &job.installation, warnings).map(Answer::Checked)?,
        Operation::IsUsed { target } => elsewhere::is_used(&records, target).map(Answer::IsUsed)?,
        Operation::Unmount { target, manner } => unmount::unmount(&records, target, *manner).map(Answer::Unmounted)?,
        Operation::Base { request, secrets: names, task, within } => base::perform(&job.installation, task, *within, |target| {
            let request = Request { target: target.to_owned(), ..with_named_secrets(request, names, secrets) };
            mount(&request, &job.installation, warnings).map(drop)
        })?,
        Operation::InBase(task) => base::in_second_worker(task, secrets)?,
        Operation::Upgrade { target, wait } => upgrade(&records, &job.installation, target, *wait, warnings)?,
        Operation::Release { patience } => release::unwanted(&records, *patience).map(|ended| Answer::Released(ended.len()))?,
        Operation::List => {
            let mut listing = list::all(&records)?;
            hang::mark(&mut listing.mounts);
            Answer::Listed(listing)
        }
        Operation::Inspect { target } => {
            let mut listed = list::one(&records, target)?;
            hang::mark(std::slice::from_mut(&mut listed));
            Answer::Inspected(Box::new(listed))
        }
    })
}

fn mount(request: &Request, installation: &Installation, warnings: &mut Vec<Failure>) -> Result<Answer, Error> {
    let mounter = Mounter::prepare();
    let plan = plan(request, installation, warnings)?;
    let record = mounter.mount(&plan, &installation.host(Arc::new(Counted)))?;
    Ok(Answer::Mounted(record.map(Box::new)))
}

fn upgrade(
    records: &Records,
    installation: &Installation,
    target: &Path,
    wait: Duration,
    warnings: &mut Vec<Failure>,
) -> Result<Answer, Error> {
    let configuration = installation.configuration()?;
    warnings.extend(configuration.problems.iter().map(Failure::from));
    let upgraded = upgrade::carry_out(records, &installation.host(Arc::new(Counted)), &configuration, target, wait)?;
    Ok(Answer::Upgraded(Box::new(upgraded)))
}

fn check(request: &Request, installation: &Installation, warnings: &mut Vec<Failure>) -> Result<Checked, Error> {
    let Plan::Client(plan) = plan(request, installation, warnings)? else {
        return Ok(Checked { client: "mount(8)".to_owned(), image: String::new(), secrets: Vec::new() });
    };
    let names = options::names(&request.options)?;
    let secret = plan.recipe.definition.secret_options();
    let secrets = names.into_iter().filter(|name| secret.contains(name)).collect();
    Ok(Checked { client: plan.client.clone(), image: plan.root.to_string(), secrets })
}

fn plan(request: &Request, installation: &Installation, warnings: &mut Vec<Failure>) -> Result<Plan, Error> {
    let configuration = installation.configuration()?;
    warnings.extend(configuration.problems.iter().map(Failure::from));
    let owner = Owner { uid: rustix::process::getuid().as_raw(), gid: rustix::process::getgid().as_raw() };
    plan::make(request, &Context { configuration, owner })
}

/// A secret that came as a descriptor is read from it at launch.
fn with_secret(request: &Request, secrets: &[OwnedFd]) -> Request {
    let given = secrets.first().map(|fd| format!("/proc/self/fd/{}", fd.as_raw_fd()).into());
    Request { secret: given.or_else(|| request.secret.clone()), ..request.clone() }
}

/// The same for secrets with names.
fn with_named_secrets(request: &Request, names: &[String], secrets: &[OwnedFd]) -> Request {
    let given = names.iter().zip(secrets).map(|(name, fd)| (name.clone(), format!("/proc/self/fd/{}", fd.as_raw_fd()).into()));
    Request { secrets: given.collect(), ..request.clone() }
}
