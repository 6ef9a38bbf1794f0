//! csi.v1.Identity: who we are.

use tonic::Status;

use crate::driver::Driver;
use crate::messages::{BoolValue, Empty, GetPluginCapabilitiesResponse, GetPluginInfoResponse, ProbeResponse};

pub(crate) fn info(driver: &Driver, _: Empty) -> Result<GetPluginInfoResponse, Status> {
    Ok(GetPluginInfoResponse { name: driver.settings.driver_name.clone(), vendor_version: env!("CARGO_PKG_VERSION").to_owned() })
}

pub(crate) fn capabilities(_: Empty) -> Result<GetPluginCapabilitiesResponse, Status> {
    Ok(GetPluginCapabilitiesResponse { capabilities: Vec::new() })
}

/// We need nothing that could be missing: clients and images belong to volumes.
pub(crate) fn probe(_: Empty) -> Result<ProbeResponse, Status> {
    Ok(ProbeResponse { ready: Some(BoolValue { value: true }) })
}
