//! The driver's two sockets: the one for CSI, and the one by which kubelet learns of it.

use std::path::PathBuf;
use std::sync::Arc;

use http::{Request, Response};
use hyper::body::Incoming;
use shorefast_serve::service::Served;
use shorefast_serve::{Ending, Endpoint, Operations, Protocol};
use tokio::net::UnixStream;
use tonic::Status;
use tonic::body::Body;

use crate::driver::{Driver, Settings};
use crate::grpc::{self, unary};
use crate::{controller, health, identity, node, registration};

pub fn endpoints(settings: Settings, operations: Operations) -> Vec<Endpoint> {
    let driver = Arc::new(Driver::new(settings, operations));
    let csi = Endpoint { name: "csi", socket: driver.settings.socket(), protocol: Arc::new(Csi(Arc::clone(&driver))) };
    let registration = driver.settings.registration_socket().map(|socket| registration_endpoint(socket, &driver));
    // Registered last: kubelet calls back at once.
    [csi].into_iter().chain(registration).collect()
}

fn registration_endpoint(socket: PathBuf, driver: &Arc<Driver>) -> Endpoint {
    Endpoint { name: "registration", socket, protocol: Arc::new(Registration(Arc::clone(driver))) }
}

struct Csi(Arc<Driver>);

impl Protocol for Csi {
    fn serve(&self, connection: UnixStream, ending: Ending) -> Served {
        let driver = Arc::clone(&self.0);
        Box::pin(grpc::serve(connection, ending, move |request| Box::pin(route(Arc::clone(&driver), request))))
    }
}

async fn route(driver: Arc<Driver>, request: Request<Incoming>) -> Response<Body> {
    let deadline = grpc::deadline(request.headers());
    match request.uri().path() {
        "/csi.v1.Identity/GetPluginInfo" => unary(request, |message| async move { identity::info(&driver, message) }).await,
        "/csi.v1.Identity/GetPluginCapabilities" => unary(request, |message| async { identity::capabilities(message) }).await,
        "/csi.v1.Identity/Probe" => unary(request, |message| async { identity::probe(message) }).await,
        "/csi.v1.Controller/CreateVolume" => unary(request, move |message| controller::create(driver, message, deadline)).await,
        "/csi.v1.Controller/DeleteVolume" => unary(request, move |message| controller::delete(driver, message, deadline)).await,
        "/csi.v1.Controller/ValidateVolumeCapabilities" => {
            unary(request, move |message| controller::validate(driver, message, deadline)).await
        }
        "/csi.v1.Controller/ControllerGetCapabilities" => unary(request, |message| async { controller::capabilities(message) }).await,
        "/csi.v1.Node/NodeStageVolume" => unary(request, move |message| node::stage(driver, message, deadline)).await,
        "/csi.v1.Node/NodeUnstageVolume" => unary(request, move |message| node::unstage(driver, message, deadline)).await,
        "/csi.v1.Node/NodePublishVolume" => unary(request, move |message| node::publish(driver, message, deadline)).await,
        "/csi.v1.Node/NodeUnpublishVolume" => unary(request, move |message| node::unpublish(driver, message, deadline)).await,
        "/csi.v1.Node/NodeGetVolumeStats" => unary(request, move |message| node::stats(driver, message, deadline)).await,
        "/csi.v1.Node/NodeGetVolumeHealth" => unary(request, move |message| health::volume(driver, message, deadline)).await,
        "/csi.v1.Node/NodeGetStorageHealth" => unary(request, move |message| health::storage(driver, message, deadline)).await,
        "/csi.v1.Node/NodeGetCapabilities" => unary(request, |message| async move { node::capabilities(&driver, message) }).await,
        "/csi.v1.Node/NodeGetInfo" => unary(request, |message| async move { node::info(&driver, message) }).await,
        other => Status::unimplemented(format!("{other} is not implemented")).into_http(),
    }
}

struct Registration(Arc<Driver>);

impl Protocol for Registration {
    fn serve(&self, connection: UnixStream, ending: Ending) -> Served {
        let driver = Arc::clone(&self.0);
        Box::pin(grpc::serve(connection, ending, move |request| Box::pin(register(Arc::clone(&driver), request))))
    }
}

async fn register(driver: Arc<Driver>, request: Request<Incoming>) -> Response<Body> {
    match request.uri().path() {
        "/pluginregistration.Registration/GetInfo" => unary(request, |message| async move { registration::info(&driver, message) }).await,
        "/pluginregistration.Registration/NotifyRegistrationStatus" => {
            unary(request, |message| async move { registration::status(&driver, message) }).await
        }
        other => Status::unimplemented(format!("{other} is not implemented")).into_http(),
    }
}
