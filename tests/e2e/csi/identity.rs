//! Who the driver says it is, and to whom: registration, Identity, and the ways of older kubelets.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use shorefast_csi::messages::*;
use shorefast_tests::Host;
use shorefast_tests::channel::Channel;

use crate::kubelet::{DRIVER, Kubelet, text};
use crate::{UNIMPLEMENTED, refused};

#[test]
fn registers_says_what_it_is_and_ends_at_once() {
    let Some(host) = Host::new() else { return };
    let mut kubelet = Kubelet::with_driver(&host);
    let registration = Channel::open(&kubelet.registration_socket());
    let info: PluginInfo = registration.call("/pluginregistration.Registration/GetInfo", &Empty {}).expect("it says what it is");
    assert_eq!((info.kind.as_str(), info.name.as_str(), info.endpoint), ("CSIPlugin", DRIVER, text(&kubelet.socket())));
    assert_eq!(info.supported_versions, ["1.0.0"]);
    let status = RegistrationStatus { plugin_registered: false, error: "because of this".to_owned() };
    let _: Empty = registration.call("/pluginregistration.Registration/NotifyRegistrationStatus", &status).expect("it listens");

    let channel = kubelet.channel();
    let info: GetPluginInfoResponse = channel.call("/csi.v1.Identity/GetPluginInfo", &Empty {}).expect("it has a name");
    assert_eq!(info.name, DRIVER);
    assert!(!info.vendor_version.is_empty());
    let probe: ProbeResponse = channel.call("/csi.v1.Identity/Probe", &Empty {}).expect("it is ready");
    assert_eq!(probe.ready, Some(BoolValue { value: true }));
    let node: NodeGetInfoResponse = channel.call("/csi.v1.Node/NodeGetInfo", &Empty {}).expect("it knows its node");
    assert_eq!((node.node_id.as_str(), node.max_volumes_per_node), ("node-1", 0));
    let can: GetCapabilitiesResponse = channel.call("/csi.v1.Node/NodeGetCapabilities", &Empty {}).expect("it can do something");
    // What an independent test suite knows.
    assert!(can.capabilities.iter().all(|one| one.rpc.as_ref().is_some_and(|rpc| [1, 2, 3, 4, 5, 6].contains(&rpc.kind))), "{can:?}");
    refused::<Empty>(channel.call("/csi.v1.Node/NodeExpandVolume", &Empty {}), UNIMPLEMENTED);

    // The best of a few: this machine may be busy.
    let took = (0..4).map(|_| {
        drop(kubelet.stop());
        kubelet.start()
    });
    let took = took.min();
    assert!(took.is_some_and(|took| took < Duration::from_secs(1)), "{took:?}");
    let again: PluginInfo = Channel::open(&kubelet.registration_socket())
        .call("/pluginregistration.Registration/GetInfo", &Empty {})
        .expect("kubelet can register it again");
    assert_eq!(again.name, DRIVER);
    let _: Empty = Channel::open(&kubelet.registration_socket())
        .call("/pluginregistration.Registration/NotifyRegistrationStatus", &status)
        .expect("it listens");

    let (socket, registration_socket) = (kubelet.socket(), kubelet.registration_socket());
    let asked = Instant::now();
    let ended = kubelet.stop();
    assert!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());
    ended.exits(0).says("kubelet does not register this driver: because of this");
    assert!(!socket.exists() && !registration_socket.exists());
    host.assert_nothing_left();
}

/// A request as grpc-go sent it until 2022: the socket's path, plain or percent-encoded, as `:authority`.
#[test]
fn kubelets_from_before_1_26_are_answered() {
    let Some(host) = Host::new() else { return };
    let kubelet = Kubelet::with_driver(&host);
    let path = text(&kubelet.socket());
    for authority in [path.clone(), path.replace('/', "%2F"), "localhost".to_owned()] {
        let mut connection = UnixStream::connect(kubelet.socket()).expect("the driver listens");
        connection.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
        let literal = |name: &str, value: &str| [&[0, name.len() as u8], name.as_bytes(), &[value.len() as u8], value.as_bytes()].concat();
        let headers = [
            literal(":method", "POST"),
            literal(":scheme", "http"),
            literal(":path", "/csi.v1.Identity/Probe"),
            literal(":authority", &authority),
            literal("content-type", "application/grpc"),
            literal("te", "trailers"),
        ]
        .concat();
        let frame = |kind: u8, flags: u8, stream: u8, payload: &[u8]| {
            let length = (payload.len() as u32).to_be_bytes();
            [&length[1..], &[kind, flags, 0, 0, 0, stream], payload].concat()
        };
        let request =
            [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), frame(4, 0, 0, &[]), frame(1, 4, 1, &headers), frame(0, 1, 1, &[0; 5])];
        connection.write_all(&request.concat()).expect("the driver reads");
        let answer = loop {
            let mut head = [0; 9];
            connection.read_exact(&mut head).expect("the driver answers");
            let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
            connection.read_exact(&mut payload).expect("a whole frame");
            match head[3] {
                0 => break payload,
                3 | 7 => panic!("{authority}: reset or refused"),
                _ => {}
            }
        };
        // Ready: {1: {1: true}}.
        assert_eq!(answer, [0, 0, 0, 0, 4, 0x0a, 2, 0x08, 1], "{authority}");
    }
}
