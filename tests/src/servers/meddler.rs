//! A proxy between a client and a plain HTTP server that does what bad networks and proxies do: cuts connections, changes bytes.
//! It counts the bytes that pass, so that a test can distinguish a resumed download from a new one.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mischief {
    /// Every connection ends after this many bytes of answers.
    CutAfter(u64),
    /// After this many bytes of answers in total, no further bytes are sent.
    DieAfter(u64),
    /// The first connection whose requests have more bytes than this ends there.
    CutQuestionsOnce(u64),
    /// The byte at this offset of every longer connection's answers is changed.
    FlipAt(u64),
}

#[derive(Debug)]
pub struct Meddler {
    pub address: SocketAddr,
    passed: Arc<AtomicU64>,
    asked: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
    accepting: Option<JoinHandle<()>>,
}

impl Meddler {
    pub fn start(server: SocketAddr, mischief: Mischief) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("there is a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let passed = Arc::new(AtomicU64::new(0));
        let over = Arc::new(AtomicBool::new(false));
        let (counter, end) = (Arc::clone(&passed), Arc::clone(&over));
        let (asked, cut) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let questions = Arc::clone(&asked);
        let accepting = thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if end.load(Ordering::Relaxed) {
                    return;
                }
                let (counter, asked, cut) = (Arc::clone(&counter), Arc::clone(&questions), Arc::clone(&cut));
                thread::spawn(move || drop(meddle(client, server, mischief, &counter, (asked, cut))));
            }
        });
        Self { address, passed, asked, over, accepting: Some(accepting) }
    }

    /// Bytes of answers that clients got, headers included.
    pub fn passed(&self) -> u64 {
        self.passed.load(Ordering::Relaxed)
    }

    /// Bytes of requests that the server got, headers included.
    pub fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }
}

impl Drop for Meddler {
    /// A thread that does not end keeps the test's network alive.
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        drop(TcpStream::connect(self.address));
        drop(self.accepting.take().map(JoinHandle::join));
    }
}

type Questions = (Arc<AtomicU64>, Arc<AtomicBool>);

fn meddle(client: TcpStream, server: SocketAddr, mischief: Mischief, counter: &AtomicU64, asked: Questions) -> std::io::Result<()> {
    let server = TcpStream::connect(server)?;
    let (questions, questioned) = (client.try_clone()?, server.try_clone()?);
    thread::spawn(move || ask(&questions, &questioned, mischief, &asked));
    let result = pass(&server, &client, mischief, counter);
    drop(client.shutdown(Shutdown::Both));
    drop(server.shutdown(Shutdown::Both));
    result
}

fn ask(mut from: &TcpStream, mut to: &TcpStream, mischief: Mischief, (asked, cut): &Questions) -> std::io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    let mut position = 0;
    loop {
        let count = from.read(&mut buffer)?;
        if count == 0 {
            return to.shutdown(Shutdown::Write);
        }
        to.write_all(&buffer[..count])?;
        position += count as u64;
        asked.fetch_add(count as u64, Ordering::Relaxed);
        if matches!(mischief, Mischief::CutQuestionsOnce(limit) if position > limit) && !cut.swap(true, Ordering::Relaxed) {
            to.shutdown(Shutdown::Both)?;
            return from.shutdown(Shutdown::Both);
        }
    }
}

fn pass(mut from: &TcpStream, mut to: &TcpStream, mischief: Mischief, counter: &AtomicU64) -> std::io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    let mut position = 0;
    loop {
        let count = from.read(&mut buffer)?;
        if count == 0 {
            return Ok(());
        }
        let mut data = &mut buffer[..count];
        match mischief {
            Mischief::CutAfter(limit) => data = &mut data[..count.min(usize::try_from(limit - position).unwrap_or(count))],
            Mischief::DieAfter(limit) => {
                let left = limit.saturating_sub(counter.load(Ordering::Relaxed));
                data = &mut data[..count.min(usize::try_from(left).unwrap_or(count))];
            }
            Mischief::CutQuestionsOnce(_) => {}
            Mischief::FlipAt(place) => {
                if let Some(byte) = place.checked_sub(position).and_then(|offset| data.get_mut(usize::try_from(offset).ok()?)) {
                    *byte ^= 1;
                }
            }
        }
        to.write_all(data)?;
        position += data.len() as u64;
        counter.fetch_add(data.len() as u64, Ordering::Relaxed);
        if data.len() < count || mischief == Mischief::CutAfter(position) {
            return Ok(());
        }
    }
}
