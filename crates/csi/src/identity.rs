//! csi.v1.Identity: who we are.

use tonic::Status;

use crate::driver::Driver;
use crate::messages::{
    BoolValue, CONTROLLER_SERVICE, Capability, Empty, GetPluginCapabilitiesResponse, GetPluginInfoResponse, PluginCapability, ProbeResponse,
};

pub(crate) fn info(driver: &Driver, _: Empty) -> Result<GetPluginInfoResponse, Status> {
    Ok(GetPluginInfoResponse { name: driver.settings.driver_name.clone(), vendor_version: env!("CARGO_PKG_VERSION").to_owned() })
}

pub(crate) fn capabilities(_: Empty) -> Result<GetPluginCapabilitiesResponse, Status> {
    let controller = PluginCapability { service: Some(Capability { kind: CONTROLLER_SERVICE }) };
    Ok(GetPluginCapabilitiesResponse { capabilities: vec![controller] })
}

/// We need nothing that could be missing: clients and images belong to volumes.
pub(crate) fn probe(_: Empty) -> Result<ProbeResponse, Status> {
    Ok(ProbeResponse { ready: Some(BoolValue { value: true }) })
}
