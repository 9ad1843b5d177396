//! Limits one caller's share of the daemon: its connections, the bytes of its request bodies in
//! memory, and the number of large bodies that are read and decoded at once. A greedy caller waits
//! or is refused; other callers do not notice.

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
    time::Duration,
};

use axum::{extract::Request, middleware::Next, response::Response};
use parking_lot::Mutex;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};

use super::{ErrorKind, HttpError, Principal, early_errors, guard, state::SharedState};

/// One caller may use at most one part in this many of the room for bodies.
const CALLER_SHARE: usize = 4;

/// How many large bodies of one caller are read and decoded at the same time; its others wait. With
/// more, a caller could take every processor of a small machine.
const LARGE_BODIES_AT_ONCE: usize = 1;

/// How long a large body may be read before the caller's next one gets its turn. A slow client
/// therefore does not hold up the caller's other requests. A client on this machine needs only one
/// turn.
const TURN_TIME: Duration = Duration::from_millis(50);

/// How long a refused caller should wait before it tries again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The usage of all callers and its limits. Clones share it.
#[derive(Clone, Debug)]
pub struct CallerLimits {
    connections_per_caller: usize,
    bodies_bytes: usize,
    usage: Arc<Mutex<LimitedUsage>>,
}

#[derive(Debug, Default)]
struct LimitedUsage {
    bodies_bytes: usize,
    callers: HashMap<Arc<str>, CallerUsage>,
}

#[derive(Debug)]
struct CallerUsage {
    connections: usize,
    /// The open reservations, including empty ones.
    bodies: usize,
    bodies_bytes: usize,
    large_bodies: Arc<Semaphore>,
}

impl Default for CallerUsage {
    fn default() -> Self {
        let large_bodies = Arc::new(Semaphore::new(LARGE_BODIES_AT_ONCE));
        Self { connections: 0, bodies: 0, bodies_bytes: 0, large_bodies }
    }
}

impl LimitedUsage {
    fn caller(&mut self, name: &Arc<str>) -> &mut CallerUsage {
        self.callers.entry(Arc::clone(name)).or_default()
    }

    fn forget_if_unused(&mut self, name: &Arc<str>) {
        if self.callers.get(name).is_some_and(|u| u.connections == 0 && u.bodies == 0) {
            self.callers.remove(name);
        }
    }
}

impl Default for CallerLimits {
    fn default() -> Self {
        Self::new(64, 512 << 20)
    }
}

impl CallerLimits {
    pub fn new(connections_per_caller: usize, bodies_bytes: usize) -> Self {
        Self { connections_per_caller, bodies_bytes, usage: Arc::default() }
    }

    fn open_connection(&self, caller: &Arc<str>) -> Result<CallerConnection, HttpError> {
        let mut usage = self.usage.lock();
        let connections = &mut usage.caller(caller).connections;
        if *connections >= self.connections_per_caller {
            let message = format!("this caller already has {connections} connections open");
            return Err(busy(message, "close idle connections, or send one after another"));
        }
        *connections += 1;
        Ok(CallerConnection { limits: self.clone(), caller: Arc::clone(caller) })
    }

    /// Returns an empty reservation for a request body of this caller.
    fn open_body(&self, caller: &Arc<str>) -> BodyReservation {
        let mut usage = self.usage.lock();
        let of_caller = usage.caller(caller);
        of_caller.bodies += 1;
        BodyReservation {
            limits: self.clone(),
            caller: Arc::clone(caller),
            bytes: 0,
            large_bodies: Arc::clone(&of_caller.large_bodies),
            turn: None,
        }
    }
}

/// Returns the error for a caller that should try again soon.
pub(super) fn busy(message: String, hint: &str) -> HttpError {
    let mut error = HttpError::new(ErrorKind::Busy, message).with_hint(hint);
    error.retry_after = Some(RETRY_AFTER);
    error
}

/// Counts a connection towards its caller's limit until dropped.
#[derive(Debug)]
struct CallerConnection {
    limits: CallerLimits,
    caller: Arc<str>,
}

impl Drop for CallerConnection {
    fn drop(&mut self) {
        let mut usage = self.limits.usage.lock();
        usage.caller(&self.caller).connections -= 1;
        usage.forget_if_unused(&self.caller);
    }
}

/// The caller of a TCP connection, known after its first authenticated request. The listener
/// attaches it to every request of the connection, and drops it with the connection.
#[derive(Clone, Debug, Default)]
pub(super) struct ConnectionCaller(Arc<OnceLock<CallerConnection>>);

impl ConnectionCaller {
    pub(super) fn is_known(&self) -> bool {
        self.0.get().is_some()
    }

    /// Counts the connection towards this caller's limit, unless it is already counted.
    fn identify(&self, limits: &CallerLimits, caller: &Arc<str>) -> Result<(), HttpError> {
        if self.0.get().is_none() {
            // A connection handles one request at a time, so nothing else can set this meanwhile.
            let _first = self.0.set(limits.open_connection(caller)?);
        }
        Ok(())
    }
}

/// Counts the bytes of a request's body until dropped.
#[derive(Debug)]
pub(super) struct BodyReservation {
    limits: CallerLimits,
    caller: Arc<str>,
    bytes: usize,
    large_bodies: Arc<Semaphore>,
    turn: Option<LargeBodyTurn>,
}

/// The right of a large body to be read and decoded, granted in order of request.
#[derive(Debug)]
struct LargeBodyTurn {
    _permit: OwnedSemaphorePermit,
    ends: Instant,
}

impl BodyReservation {
    /// Extends the reservation to at least this size, or refuses.
    pub(super) fn extend_to(&mut self, total: usize) -> Result<(), HttpError> {
        let Some(bytes) = total.checked_sub(self.bytes).filter(|bytes| *bytes > 0) else {
            return Ok(());
        };
        let limit = self.limits.bodies_bytes;
        let mut usage = self.limits.usage.lock();
        let of_all = usage.bodies_bytes + bytes;
        let of_caller = usage.caller(&self.caller).bodies_bytes + bytes;
        if of_all > limit || of_caller > limit / CALLER_SHARE {
            let message = "too many request bodies are in flight";
            return Err(busy(message.to_owned(), "send fewer large requests at once"));
        }
        usage.bodies_bytes = of_all;
        usage.caller(&self.caller).bodies_bytes = of_caller;
        self.bytes = total;
        Ok(())
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Waits for this body's turn among the caller's large ones, unless it already has it.
    pub(super) async fn take_turn(&mut self) {
        if self.turn_ends().is_some_and(|ends| ends > Instant::now()) {
            return;
        }
        // Bodies that are already waiting go first.
        self.end_turn();
        // The semaphore is never closed, so this cannot fail.
        if let Ok(permit) = Arc::clone(&self.large_bodies).acquire_owned().await {
            self.turn = Some(LargeBodyTurn { _permit: permit, ends: Instant::now() + TURN_TIME });
        }
    }

    /// Returns when this body must let the caller's other bodies go first, if it has its turn now.
    pub(super) fn turn_ends(&self) -> Option<Instant> {
        self.turn.as_ref().map(|turn| turn.ends)
    }

    /// Gives the turn to the caller's next large body.
    pub(super) fn end_turn(&mut self) {
        self.turn = None;
    }
}

impl Drop for BodyReservation {
    fn drop(&mut self) {
        let mut usage = self.limits.usage.lock();
        usage.bodies_bytes -= self.bytes;
        let of_caller = usage.caller(&self.caller);
        of_caller.bodies_bytes -= self.bytes;
        of_caller.bodies -= 1;
        usage.forget_if_unused(&self.caller);
    }
}

/// Opens the reservation of a request for the code that reads its body.
#[derive(Clone, Debug)]
pub(super) struct BodyQuota(CallerLimits, Arc<str>);

impl BodyQuota {
    pub(super) fn open(&self) -> BodyReservation {
        self.0.open_body(&self.1)
    }
}

/// Applies the limits to an authenticated request.
pub(super) async fn apply(
    axum::extract::State(state): SharedState,
    mut request: Request,
    next: Next,
) -> Response {
    let extensions = request.extensions();
    let caller = extensions.get::<Principal>().map(|principal| Arc::clone(&principal.name));
    // An open path needs no key, so a request to it does not identify the caller.
    let Some(caller) = caller.filter(|_| !guard::is_open(&request) || guard::is_hook(&request))
    else {
        return next.run(request).await;
    };
    if let Some(connection) = extensions.get::<ConnectionCaller>()
        && let Err(error) = connection.identify(&state.caller_limits, &caller)
    {
        return early_errors::error_response(&request, error);
    }
    request.extensions_mut().insert(BodyQuota(state.caller_limits.clone(), caller));
    next.run(request).await
}

#[cfg(test)]
mod tests {
    use std::{
        pin::Pin,
        task::{Context, Waker},
    };

    use super::*;

    #[test]
    fn a_caller_has_its_share_and_gets_it_back() {
        let limits = CallerLimits::new(2, 1000);
        let (greedy, polite): (Arc<str>, Arc<str>) = ("greedy".into(), "polite".into());
        let mut body = limits.open_body(&greedy);
        body.extend_to(250).unwrap();
        assert!(limits.open_body(&greedy).extend_to(1).is_err());
        limits.open_body(&polite).extend_to(250).unwrap();
        drop(body);
        limits.open_body(&greedy).extend_to(250).unwrap();
        let connections: Vec<_> =
            (0..2).map(|_| limits.open_connection(&greedy).unwrap()).collect();
        assert!(limits.open_connection(&greedy).is_err());
        limits.open_connection(&polite).unwrap();
        drop(connections);
        limits.open_connection(&greedy).unwrap();
        assert!(limits.usage.lock().callers.is_empty());
    }

    #[test]
    fn all_bodies_together_are_limited() {
        let limits = CallerLimits::new(2, 1000);
        let bodies: Vec<_> = (0..4)
            .map(|n| {
                let mut body = limits.open_body(&format!("caller {n}").into());
                body.extend_to(250).unwrap();
                body
            })
            .collect();
        assert!(limits.open_body(&"another".into()).extend_to(1).is_err());
        drop(bodies);
        limits.open_body(&"another".into()).extend_to(250).unwrap();
    }

    /// Polls a wait for a turn once.
    fn has_turn(turn: &mut Pin<Box<impl Future<Output = ()>>>) -> bool {
        turn.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[tokio::test(start_paused = true)]
    async fn large_bodies_of_one_caller_have_their_turns_in_order() {
        let limits = CallerLimits::new(2, 1000);
        let (greedy, polite): (Arc<str>, Arc<str>) = ("greedy".into(), "polite".into());
        let [mut first, mut second, mut third] = [(); 3].map(|()| limits.open_body(&greedy));
        first.take_turn().await;
        {
            let mut second = Box::pin(second.take_turn());
            let mut third = Box::pin(third.take_turn());
            assert!(!has_turn(&mut second) && !has_turn(&mut third));
            limits.open_body(&polite).take_turn().await;
            // Within its time, the first body continues; after that, the others go first.
            first.take_turn().await;
            tokio::time::advance(TURN_TIME).await;
            let mut first = Box::pin(first.take_turn());
            assert!(!has_turn(&mut first) && !has_turn(&mut third) && has_turn(&mut second));
        }
        // Waiting bodies have no bytes, and the end of one lets the next one continue.
        assert_eq!(limits.usage.lock().bodies_bytes, 0);
        let mut third_turn = Box::pin(third.take_turn());
        assert!(!has_turn(&mut third_turn));
        drop(second);
        assert!(has_turn(&mut third_turn));
        drop(third_turn);
        third.end_turn();
        first.take_turn().await;
        drop((first, third));
        assert!(limits.usage.lock().callers.is_empty());
    }
}
