//! DNS: are there name servers, and does one of them answer?

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use crate::finding::Finding;

const FILE: &str = "/etc/resolv.conf";
const PATIENCE: Duration = Duration::from_secs(2);

pub fn check() -> Finding {
    let servers = servers(&std::fs::read_to_string(FILE).unwrap_or_default());
    let answering = servers.iter().copied().find(|server| answers(*server));
    judge(&servers, answering)
}

fn judge(servers: &[IpAddr], answering: Option<IpAddr>) -> Finding {
    match (servers, answering) {
        ([], _) => Finding::warning(
            "names",
            format!("{FILE} names no name server: only addresses and /etc/hosts work as sources"),
            format!("add a line \"nameserver ADDRESS\" to {FILE}"),
        ),
        (_, None) => {
            let all = servers.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(", ");
            let finding = format!("no name server of {FILE} answers ({all})");
            Finding::warning("names", finding, "check the network, or name servers that answer; sources given as addresses work")
        }
        (_, Some(server)) => Finding::good("names", format!("name server {server} answers")),
    }
}

fn servers(text: &str) -> Vec<IpAddr> {
    let addresses = text.lines().filter_map(|line| line.trim().strip_prefix("nameserver")?.split_whitespace().next()?.parse().ok());
    addresses.collect()
}

/// Asks for the root's name servers: any response counts, a refusal included.
fn answers(server: IpAddr) -> bool {
    const QUESTION: [u8; 17] = [0x5f, 0x61, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 1];
    let own: IpAddr = if server.is_ipv4() { [0, 0, 0, 0].into() } else { [0u16; 8].into() };
    let ask = || {
        let socket = UdpSocket::bind((own, 0))?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.connect(SocketAddr::from((server, 53)))?;
        socket.send(&QUESTION)?;
        let mut answer = [0; 512];
        socket.recv(&mut answer).map(|length| length >= 12 && answer[..2] == QUESTION[..2])
    };
    ask().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Verdict;

    #[test]
    fn reads_servers_and_nothing_else() {
        let text = "# nameserver 9.9.9.9\nsearch a b\nnameserver 10.0.0.10\n nameserver ::1 # local\nnameserver nonsense\n";
        assert_eq!(servers(text), ["10.0.0.10".parse::<IpAddr>().unwrap(), "::1".parse().unwrap()]);
    }

    #[test]
    fn silence_is_a_warning() {
        let server = [127, 0, 0, 1].into();
        assert_eq!(judge(&[], None).verdict, Verdict::Warning);
        assert_eq!(judge(&[server], None).verdict, Verdict::Warning);
        assert_eq!(judge(&[server], Some(server)).verdict, Verdict::Good);
    }
}
