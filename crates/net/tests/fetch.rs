//! The client against servers that cut, stall, lie and redirect, on real sockets.
#![expect(clippy::unwrap_used, reason = "a test's own files and sockets")]

#[path = "fetch/server.rs"]
mod server;

use std::fs;
use std::io::Write as _;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use server::{Server, reply, reply_part};
use shorefast_net::{Client, Download, Error, Hash, PlainHttp, Progress, Proxies, Request, Settings, Silent, Size, Task};

fn settings() -> Settings {
    Settings {
        plain_http: PlainHttp::Allowed,
        connect_timeout: Duration::from_secs(2),
        stall_timeout: Duration::from_millis(300),
        attempts: 3,
        first_pause: Duration::from_millis(5),
        ..Settings::default()
    }
}

fn client() -> Client {
    Client::new(&settings())
}

/// More than one buffer, and no two places alike.
fn data() -> Vec<u8> {
    (0..400_000u32).flat_map(u32::to_le_bytes).collect()
}

struct Fetch {
    directory: tempfile::TempDir,
}

impl Fetch {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    fn target(&self) -> std::path::PathBuf {
        self.directory.path().join("blob")
    }

    fn run(&self, client: &Client, urls: &[String], size: u64, hash: Hash) -> Result<Vec<u8>, Error> {
        let sources: Vec<_> = urls.iter().map(|url| Request::parse(url).unwrap()).collect();
        let to = self.target();
        let item = Download { what: "blob", sources: &sources, to: &to, size: Size::Exactly(size), hash: Some(hash) };
        client.download(&item, &Silent)?;
        Ok(fs::read(&to).unwrap())
    }

    fn of(&self, urls: &[String], data: &[u8]) -> Result<Vec<u8>, Error> {
        self.run(&client(), urls, data.len() as u64, Hash::sha256_of(data))
    }
}

#[test]
fn a_cut_connection_is_taken_up_where_it_broke() {
    let server = Server::start(|_, request, stream| reply_part(stream, request, &data(), 700_000));
    let data = data();
    assert_eq!(Fetch::new().of(&[server.url("/blob")], &data).unwrap(), data);
    let from: Vec<_> = server.received().iter().map(server::Received::from).collect();
    assert_eq!(from, [0, 700_000, 1_400_000], "every byte travels once");
}

#[test]
fn what_a_killed_download_left_is_taken_up() {
    let server = Server::start(|_, request, stream| reply_part(stream, request, &data(), usize::MAX));
    let (data, fetch) = (data(), Fetch::new());
    fs::write(fetch.directory.path().join("blob.part"), &data[..1_000_000]).unwrap();
    assert_eq!(fetch.of(&[server.url("/blob")], &data).unwrap(), data);
    assert_eq!(server.received()[0].from(), 1_000_000);
}

#[test]
fn a_wrong_beginning_is_thrown_away_and_the_rest_asked_for_again() {
    let server = Server::start(|_, request, stream| reply_part(stream, request, &data(), usize::MAX));
    let (data, fetch) = (data(), Fetch::new());
    fs::write(fetch.directory.path().join("blob.part"), vec![b'?'; 1_000_000]).unwrap();
    assert_eq!(fetch.of(&[server.url("/blob")], &data).unwrap(), data);
    assert_eq!(server.received().iter().map(server::Received::from).collect::<Vec<_>>(), [1_000_000, 0]);
}

#[test]
fn a_server_without_ranges_sends_all_again() {
    let server = Server::start(|number, _, stream| {
        let data = data();
        if number == 0 {
            reply_part(stream, &server::Received { line: String::new(), headers: vec![] }, &data, 1000)
        } else {
            reply(stream, "200 OK", "", &data)
        }
    });
    let data = data();
    assert_eq!(Fetch::new().of(&[server.url("/blob")], &data).unwrap(), data);
}

#[test]
fn wrong_bytes_are_refused_and_nothing_is_left_under_the_name() {
    let server = Server::start(|_, _, stream| {
        let mut data = data();
        data[1_234_567] ^= 1;
        reply(stream, "200 OK", "", &data);
    });
    let fetch = Fetch::new();
    let error = fetch.of(&[server.url("/blob")], &data()).unwrap_err();
    assert!(matches!(error, Error::WrongHash { .. }), "{error}");
    assert!(error.hint().is_some());
    assert!(!fetch.target().exists());
    assert_eq!(server.received().len(), 1, "asking the same server for the same wrong data is of no use");
}

#[test]
fn wrong_sizes_are_refused() {
    let right = b"0123456789".as_slice();
    let announced = Server::start(|_, _, stream| reply(stream, "200 OK", "", b"0123456789ABC"));
    let error = Fetch::new().of(&[announced.url("/")], right).unwrap_err();
    assert!(matches!(error, Error::WrongSize { expected: 10, found: 13, .. }), "{error}");

    let endless = Server::start(|_, _, stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n");
        while stream.write_all(&[b'x'; 65536]).is_ok() {}
    });
    let error = Fetch::new().of(&[endless.url("/")], right).unwrap_err();
    assert!(matches!(error, Error::WrongSize { expected: 10, .. }), "{error}");

    let short = Server::start(|_, _, stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n01234");
    });
    let error = Fetch::new().of(&[short.url("/")], right).unwrap_err();
    assert!(matches!(error, Error::Broken { .. }), "{error}");
}

#[test]
fn a_stalled_server_is_left_after_the_deadline() {
    let server = Server::start(|number, request, stream| {
        let data = data();
        if number == 0 {
            let _ = write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", data.len());
            let _ = stream.write_all(&data[..500_000]);
            std::thread::sleep(Duration::from_secs(20));
        }
        reply_part(stream, request, &data, usize::MAX);
    });
    let (data, before) = (data(), Instant::now());
    assert_eq!(Fetch::new().of(&[server.url("/blob")], &data).unwrap(), data);
    assert!(before.elapsed() < Duration::from_secs(5), "{:?}", before.elapsed());
    assert_eq!(server.received()[1].from(), 500_000);
}

#[test]
fn a_trickle_of_bytes_does_not_hold_us_for_ever() {
    let server = Server::start(|_, _, stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n");
        while stream.write_all(b"x").is_ok() {
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    let before = Instant::now();
    let request = Request::parse(&server.url("/")).unwrap();
    assert!(matches!(client().get(&request, 1_000_000), Err(Error::Stalled { .. })));
    assert!(before.elapsed() < Duration::from_secs(5), "{:?}", before.elapsed());
}

#[test]
fn busy_servers_are_asked_again_and_refusals_are_not() {
    for (status, asked) in [("503 Busy", 3), ("429 Slow Down", 3), ("404 No", 1), ("403 No", 1)] {
        let server = Server::start(move |_, _, stream| reply(stream, status, "", b"why"));
        let answer = client().get(&Request::parse(&server.url("/")).unwrap(), 100).unwrap();
        assert_eq!(answer.status.to_string(), status[..3]);
        assert_eq!(server.received().len(), asked, "{status}");
        let error = answer.success().unwrap_err();
        assert!(error.to_string().contains("(why)"), "{error}");
        let server = Server::start(move |_, _, stream| reply(stream, status, "", b"why"));
        let error = Fetch::new().of(&[server.url("/")], b"x").unwrap_err();
        assert!(matches!(error, Error::Status { .. }), "{error}");
        assert_eq!(server.received().len(), asked, "{status}");
    }
}

#[test]
fn a_dead_or_lying_mirror_gives_way_to_the_next_source() {
    let dead = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}/blob", listener.local_addr().unwrap())
    };
    let lying = Server::start(|_, _, stream| reply(stream, "200 OK", "", &vec![0; data().len()]));
    let missing = Server::start(|_, _, stream| reply(stream, "404 Not Found", "", b""));
    let good = Server::start(|_, request, stream| reply_part(stream, request, &data(), usize::MAX));
    let data = data();
    let before = Instant::now();
    let urls = [dead, lying.url("/blob"), missing.url("/blob"), good.url("/blob")];
    assert_eq!(Fetch::new().of(&urls, &data).unwrap(), data);
    assert!(before.elapsed() < Duration::from_secs(2), "the others are tried before anybody is waited for");
}

#[test]
fn credentials_are_not_forwarded_to_another_host() {
    let other = Server::start(|_, _, stream| reply(stream, "200 OK", "", b"there"));
    let elsewhere = other.url("/data");
    let first = Server::start(move |_, request, stream| match request.line.split(' ').nth(1) {
        Some("/same") => reply(stream, "307 Moved", "location: /here\r\n", b""),
        Some("/here") => reply(stream, "200 OK", "", b"here"),
        _ => reply(stream, "307 Moved", &format!("location: {elsewhere}\r\n"), b""),
    });
    let ask = |path| client().get(&Request::parse(&first.url(path)).unwrap().with_bearer("secret"), 100).unwrap().body;
    assert_eq!(ask("/same"), b"here");
    assert_eq!(ask("/away"), b"there");
    assert!(first.received().iter().all(|request| request.header("authorization") == Some("Bearer secret")));
    assert_eq!(other.received().len(), 1);
    assert_eq!(other.received()[0].header("authorization"), None);
}

#[test]
fn a_form_is_sent_once_and_to_nobody_else() {
    let server = Server::start(|number, _, stream| match number {
        0 => reply(stream, "200 OK", "", b"thanks"),
        _ => reply(stream, "307 Moved", "location: http://127.0.0.1:1/\r\n", b""),
    });
    let request = Request::parse(&server.url("/token")).unwrap().with_form(&[("a", "x y"), ("b", "&")]);
    assert_eq!(client().get(&request, 100).unwrap().body, b"thanks");
    let received = server.received().remove(0);
    assert_eq!((received.line.as_str(), received.header("content-length")), ("POST /token HTTP/1.1", Some("11")));
    let error = client().get(&request, 100).unwrap_err();
    assert!(matches!(error, Error::Redirect { .. }), "{error}");
}

#[test]
fn redirections_end_and_do_not_lead_to_plain_http() {
    let round = Server::start(|_, _, stream| reply(stream, "302 Found", "location: /again\r\n", b""));
    let error = client().get(&Request::parse(&round.url("/")).unwrap(), 100).unwrap_err();
    assert!(matches!(error, Error::Redirect { .. }), "{error}");

    let other = Server::start(|_, _, stream| reply(stream, "200 OK", "", b"x"));
    let elsewhere = other.url("/");
    let first = Server::start(move |_, _, stream| reply(stream, "302 Found", &format!("location: {elsewhere}\r\n"), b""));
    let only_first = PlainHttp::OnlyFrom([first.address.to_string()].into());
    let client = Client::new(&Settings { plain_http: only_first, ..settings() });
    let error = client.get(&Request::parse(&first.url("/")).unwrap(), 100).unwrap_err();
    assert!(matches!(error, Error::PlainHttp { .. }), "{error}");
    assert!(other.received().is_empty());
}

#[test]
fn small_answers_are_bounded() {
    let server = Server::start(|_, _, stream| reply(stream, "200 OK", "", &[b'x'; 1000]));
    let ask = |limit| client().get(&Request::parse(&server.url("/")).unwrap(), limit);
    assert_eq!(ask(1000).unwrap().body.len(), 1000);
    assert!(matches!(ask(999), Err(Error::TooLarge { limit: 999, .. })));
}

#[test]
fn nobody_there_is_said_so_with_a_hint() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/x?token=hidden", listener.local_addr().unwrap());
    drop(listener);
    let error = client().get(&Request::parse(&url).unwrap(), 10).unwrap_err();
    assert!(matches!(error, Error::Connect { .. }) && error.hint().is_some(), "{error:?}");
    assert!(!format!("{error:?}").contains("hidden"));
    let error = client().get(&Request::parse("http://no-such-host.invalid/").unwrap(), 10).unwrap_err();
    assert!(matches!(error, Error::Name { .. }) && error.hint().is_some(), "{error:?}");
}

#[test]
fn several_at_once_and_the_first_failure_stops_the_rest() {
    let server = Server::start(|_, request, stream| match request.line.contains("missing") {
        true => reply(stream, "404 Not Found", "", b""),
        false => reply_part(stream, request, &data(), usize::MAX),
    });
    let (directory, data) = (tempfile::tempdir().unwrap(), data());
    let sources: Vec<_> = ["/a", "/b", "/c", "/missing"].iter().map(|path| [Request::parse(&server.url(path)).unwrap()]).collect();
    let targets: Vec<_> = (0..4).map(|number| directory.path().join(number.to_string())).collect();
    let item = |number: usize| Download {
        what: "blob",
        sources: &sources[number],
        to: &targets[number],
        size: Size::Exactly(data.len() as u64),
        hash: Some(Hash::sha256_of(&data)),
    };
    client().download_all(&[item(0), item(1), item(2)], 2, &Silent).unwrap();
    assert!(targets[..3].iter().all(|target| fs::read(target).unwrap() == data));
    let error = client().download_all(&[item(3), item(0)], 2, &Silent).unwrap_err();
    assert!(matches!(error, Error::Status { status: 404, .. }), "{error}");
    assert!(!targets[3].exists());
}

#[test]
fn two_downloads_of_the_same_file_are_one() {
    let server = Server::start(|_, request, stream| {
        std::thread::sleep(Duration::from_millis(100));
        reply_part(stream, request, &data(), usize::MAX);
    });
    let (fetch, data) = (Fetch::new(), data());
    let urls = [server.url("/blob")];
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert!(fetch.of(&urls, &data).is_ok()));
        }
    });
    assert_eq!(fs::read_dir(fetch.directory.path()).unwrap().count(), 1, "only the file itself stays");
    assert_eq!(server.received().len(), 1);
}

#[test]
fn progress_is_told() {
    #[derive(Default)]
    struct Seen {
        begun: Mutex<Vec<(String, Option<u64>)>>,
        position: AtomicUsize,
    }
    #[derive(Default)]
    struct Watch(std::sync::Arc<Seen>);
    impl Progress for Watch {
        fn begin(&self, what: &str, total: Option<u64>) -> Box<dyn Task> {
            self.0.begun.lock().unwrap().push((what.to_owned(), total));
            Box::new(Self(self.0.clone()))
        }
    }
    impl Task for Watch {
        fn at(&self, position: u64) {
            self.0.position.store(position as usize, Ordering::Relaxed);
        }
    }
    let server = Server::start(|_, request, stream| reply_part(stream, request, &data(), usize::MAX));
    let (directory, data, watch) = (tempfile::tempdir().unwrap(), data(), Watch::default());
    let sources = [Request::parse(&server.url("/")).unwrap()];
    let to = directory.path().join("blob");
    let item = Download { what: "the blob", sources: &sources, to: &to, size: Size::AtMost(10_000_000), hash: None };
    client().download(&item, &watch).unwrap();
    assert_eq!(*watch.0.begun.lock().unwrap(), [("the blob".to_owned(), None)]);
    assert_eq!(watch.0.position.load(Ordering::Relaxed), data.len());
}

#[test]
fn a_proxy_is_asked_for_the_connection() {
    let proxy = Server::start(|_, _, stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 Established\r\n\r\n");
        // From here on it is the other server's connection.
        let mut lines = std::io::BufRead::lines(std::io::BufReader::new(stream.try_clone().unwrap()));
        while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
        reply(stream, "200 OK", "", b"through");
    });
    let variables = [("all_proxy", proxy.address.to_string()), ("no_proxy", "straight.invalid".to_owned())];
    let proxies = Proxies::from_variables(|name| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| value.clone())).unwrap();
    let client = Client::new(&Settings { proxies, ..settings() });
    let answer = client.get(&Request::parse("http://not-resolved-here.invalid/x").unwrap(), 100).unwrap();
    assert_eq!(answer.body, b"through");
    assert_eq!(proxy.received()[0].line, "CONNECT not-resolved-here.invalid:80 HTTP/1.1");
    let error = client.get(&Request::parse("http://straight.invalid/").unwrap(), 100).unwrap_err();
    assert!(matches!(error, Error::Name { .. }), "{error}");
    assert_eq!(proxy.received().len(), 1);
}

/// OpenSSL's own server, with a certificate of a CA that only this test knows.
struct TlsServer {
    process: Child,
    directory: tempfile::TempDir,
    port: u16,
}

impl TlsServer {
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let openssl = |arguments: &str| {
            let done = Command::new("openssl").args(arguments.split(' ')).current_dir(directory.path()).stderr(Stdio::null()).status();
            assert!(done.expect("openssl is there").success(), "openssl {arguments}");
        };
        openssl("req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -days 2 -subj /CN=Test-CA");
        openssl("req -newkey rsa:2048 -nodes -keyout key.pem -out request.pem -subj /CN=localhost");
        fs::write(directory.path().join("names"), "subjectAltName=DNS:localhost,IP:127.0.0.1\n").unwrap();
        openssl("x509 -req -in request.pem -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names -out cert.pem");
        fs::write(directory.path().join("blob"), data()).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let arguments = format!("s_server -quiet -accept 127.0.0.1:{port} -cert cert.pem -key key.pem -WWW");
        let process = Command::new("openssl")
            .args(arguments.split(' '))
            .current_dir(directory.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let deadline = Instant::now() + Duration::from_secs(10);
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < deadline, "openssl s_server does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
        Self { process, directory, port }
    }
}

impl Drop for TlsServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_server_is_known_by_a_ca_that_the_settings_name_and_by_no_other() {
    let server = TlsServer::start();
    let trusting = Settings { ca_files: vec![server.directory.path().join("ca.pem")], plain_http: PlainHttp::Refused, ..settings() };
    let data = data();
    for host in ["localhost", "127.0.0.1"] {
        let urls = [format!("https://{host}:{}/blob", server.port)];
        let fetched = Fetch::new().run(&Client::new(&trusting), &urls, data.len() as u64, Hash::sha256_of(&data));
        assert_eq!(fetched.unwrap(), data);
    }
    let stranger = Settings { ca_files: vec![server.directory.path().join("cert.pem")], ..trusting };
    for settings in [stranger, settings()] {
        let request = Request::parse(&format!("https://localhost:{}/blob", server.port)).unwrap();
        let error = Client::new(&settings).get(&request, 10_000_000).unwrap_err();
        assert!(matches!(error, Error::Tls { .. }) && error.hint().is_some(), "{error:?}");
    }
}
