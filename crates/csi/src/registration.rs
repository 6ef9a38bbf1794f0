//! kubelet's plugin registration: it finds our socket, and asks what it is for.

use tonic::Status;

use crate::driver::Driver;
use crate::messages::{Empty, PluginInfo, RegistrationStatus};

pub(crate) fn info(driver: &Driver, _: Empty) -> Result<PluginInfo, Status> {
    Ok(PluginInfo {
        kind: "CSIPlugin".to_owned(),
        name: driver.settings.driver_name.clone(),
        endpoint: driver.settings.socket().to_string_lossy().into_owned(),
        supported_versions: vec!["1.0.0".to_owned()],
    })
}

pub(crate) fn status(driver: &Driver, status: RegistrationStatus) -> Result<Empty, Status> {
    if !status.plugin_registered {
        (driver.settings.say)(&format!("shorefast serve: kubelet does not register this driver: {}", status.error));
    }
    Ok(Empty {})
}
