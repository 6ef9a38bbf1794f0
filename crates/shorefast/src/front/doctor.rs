//! `shorefast doctor [TYPE]`.

use std::process::ExitCode;

use clap::Args;
use serde_json::json;
use shorefast_doctor::{Finding, Subject, Verdict, examine};
use shorefast_engine::configuration::{self, Sources};

use crate::front::candidates;
use crate::front::places::Places;
use crate::report;

#[derive(Debug, Args)]
pub struct DoctorArguments {
    /// A JSON array of {subject, verdict, finding, do}
    #[arg(long)]
    json: bool,
    /// Check the client of this filesystem type in detail
    #[arg(value_name = "TYPE", add = candidates::types())]
    fstype: Option<String>,
}

/// Fails if anything would make mounts fail.
pub fn run(arguments: DoctorArguments, places: &Places) -> ExitCode {
    // The present configuration, not its last good state.
    let sources = Sources { directories: places.clients.clone(), images: places.client_image.clone(), last_good: None };
    let findings = examine(&Subject {
        fstype: arguments.fstype,
        configuration: configuration::read(&sources),
        run_dir: places.run_dir.clone(),
        root: places.root.clone(),
        images: places.store(),
    });
    report::print(&if arguments.json { format!("{:#}\n", json!(findings)) } else { findings.iter().map(lines).collect() });
    if findings.iter().any(|finding| finding.verdict == Verdict::Bad) {
        return ExitCode::from(report::exit_code(shorefast_engine::Kind::Internal));
    }
    ExitCode::SUCCESS
}

fn lines(finding: &Finding) -> String {
    let verdict = match finding.verdict {
        Verdict::Good => "good   ",
        Verdict::Warning => "warning",
        Verdict::Bad => "BAD    ",
    };
    let remedy = finding.remedy.as_ref().map_or_else(String::new, |remedy| format!("         do: {remedy}\n"));
    format!("{verdict}  {}: {}\n{remedy}", finding.subject, finding.finding)
}
