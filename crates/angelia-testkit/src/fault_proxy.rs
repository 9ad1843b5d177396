//! A proxy between a client and the Unix socket of a server that fails on demand, at an exact place:
//! where the client sends given bytes.

use std::{
    io::{self, Read, Write},
    net::Shutdown,
    os::unix::net::{UnixListener, UnixStream},
    path::{Path, PathBuf},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};

/// What happens where the client sends the given bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The server gets them and answers, but the client only sees a closed connection.
    LoseAnswer,
    /// Both sides see a closed connection, and the server does not get the bytes.
    LoseRequest,
    /// The client sees a closed connection; the server gets the bytes at [`FaultProxy::deliver`].
    Delay,
}

/// The running proxy. Dropping it closes all connections.
#[derive(Debug)]
pub struct FaultProxy {
    state: Arc<SharedState>,
    socket: PathBuf,
}

#[derive(Debug, Default)]
struct SharedState {
    plan: Mutex<Plan>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Plan {
    /// The next fault, and the bytes that trigger it.
    next: Option<(Fault, Vec<u8>)>,
    /// Faults that have happened.
    happened: usize,
    /// Delayed bytes with the connection to the server.
    delayed: Vec<(UnixStream, Vec<u8>)>,
    /// Connections that are open, both sides of each.
    open: Vec<UnixStream>,
    is_blocked: bool,
    /// Connections that were not let in.
    refused: usize,
    is_closed: bool,
}

impl SharedState {
    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long a test waits for a fault.
const FAULT_TIMEOUT: Duration = Duration::from_secs(30);

impl FaultProxy {
    /// Listens at the path `socket` and passes everything on to the server at `server`.
    pub fn start(socket: &Path, server: &Path) -> io::Result<Self> {
        let listener = UnixListener::bind(socket)?;
        let state = Arc::new(SharedState::default());
        let (shared, server) = (Arc::clone(&state), server.to_owned());
        thread::spawn(move || {
            for client in listener.incoming() {
                if shared.plan().is_closed {
                    return;
                }
                let Ok(client) = client else { return };
                let _refused = pass(client, &server, &shared);
            }
        });
        Ok(Self { state, socket: socket.to_owned() })
    }

    /// Plans a fault for the next time that a client sends `bytes`.
    pub fn plan(&self, fault: Fault, bytes: &[u8]) {
        self.state.plan().next = Some((fault, bytes.to_owned()));
    }

    /// Waits until so many faults have happened.
    pub fn wait_for(&self, count: usize) -> Result<()> {
        let deadline = Instant::now() + FAULT_TIMEOUT;
        let mut plan = self.state.plan();
        while plan.happened < count {
            let left = deadline.saturating_duration_since(Instant::now());
            ensure!(!left.is_zero(), "{} of {count} faults have happened", plan.happened);
            let waited = self.state.changed.wait_timeout(plan, left);
            plan = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }

    /// Sends delayed bytes to the server, and waits until it has worked on them and closed the
    /// connection. A server that has given the connection up gets nothing.
    pub fn deliver(&self) {
        let delayed = std::mem::take(&mut self.state.plan().delayed);
        for (mut server, bytes) in delayed {
            let sent = server.write_all(&bytes).and_then(|()| server.shutdown(Shutdown::Write));
            if sent.is_ok() {
                let _answer = io::copy(&mut server, &mut io::sink());
            }
        }
    }

    /// Closes every connection, and refuses new ones until [`unblock`](Self::unblock).
    pub fn block(&self) {
        let mut plan = self.state.plan();
        plan.is_blocked = true;
        close(&mut plan);
    }

    /// Returns how many connections were refused.
    pub fn refused(&self) -> usize {
        self.state.plan().refused
    }

    pub fn unblock(&self) {
        self.state.plan().is_blocked = false;
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        let mut plan = self.state.plan();
        plan.is_closed = true;
        close(&mut plan);
        drop(plan);
        // Wakes the thread that accepts.
        let _gone = UnixStream::connect(&self.socket);
    }
}

fn close(plan: &mut Plan) {
    for stream in plan.open.drain(..) {
        let _closed_already = stream.shutdown(Shutdown::Both);
    }
}

/// Connects a client with the server.
fn pass(client: UnixStream, server: &Path, state: &Arc<SharedState>) -> io::Result<()> {
    let mut plan = state.plan();
    if plan.is_blocked {
        plan.refused += 1;
        return Ok(());
    }
    let server = UnixStream::connect(server)?;
    plan.open.extend([client.try_clone()?, server.try_clone()?]);
    drop(plan);
    let (mut answers, mut to_client) = (server.try_clone()?, client.try_clone()?);
    thread::spawn(move || {
        let _closed = io::copy(&mut answers, &mut to_client);
        let _closed_already = to_client.shutdown(Shutdown::Both);
    });
    let state = Arc::clone(state);
    thread::spawn(move || {
        let (read, write) = (client.try_clone(), server.try_clone());
        if let (Ok(read), Ok(write)) = (read, write) {
            let _closed = forward(read, write, &state);
        }
    });
    Ok(())
}

/// Passes on what the client sends, until the planned bytes are among it.
fn forward(mut client: UnixStream, mut server: UnixStream, state: &SharedState) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 16];
    loop {
        let length = client.read(&mut buffer)?;
        if length == 0 {
            return server.shutdown(Shutdown::Both);
        }
        let bytes = &buffer[..length];
        let mut plan = state.plan();
        let fault = plan.next.take_if(|(_, trigger)| contains(bytes, trigger));
        drop(plan);
        let Some((fault, _)) = fault else {
            server.write_all(bytes)?;
            continue;
        };
        client.shutdown(Shutdown::Both)?;
        match fault {
            Fault::LoseRequest => server.shutdown(Shutdown::Both)?,
            Fault::LoseAnswer => {
                server.write_all(bytes)?;
                // The server works through what it has, and then sees the end; the other thread
                // reads the answer, which it cannot pass on.
                server.shutdown(Shutdown::Write)?;
            }
            Fault::Delay => state.plan().delayed.push((server, bytes.to_owned())),
        }
        state.plan().happened += 1;
        state.changed.notify_all();
        return Ok(());
    }
}

fn contains(bytes: &[u8], trigger: &[u8]) -> bool {
    bytes.windows(trigger.len().max(1)).any(|window| window == trigger)
}
