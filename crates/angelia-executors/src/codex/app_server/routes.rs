//! Finds the thread that a message belongs to. The thread's id has several spellings, the threads
//! of sub-agents belong to the thread that started them, and a message without a thread goes to
//! all.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use angelia_wire::jsonrpc::{ErrorObject, METHOD_NOT_FOUND};
use serde_json::value::RawValue;

use super::{
    super::protocol::{
        message::{RequestId, Route},
        response,
    },
    inbox::{InboxSender, ThreadInboxError, ThreadMessage},
};

/// How many sub-agent threads are remembered; the oldest are forgotten first.
const MAX_CHILDREN: usize = 1024;

#[derive(Debug, Default)]
pub(super) struct ThreadRoutes {
    threads: HashMap<Arc<str>, RoutedThread>,
    /// Maps a sub-agent's thread to the thread of ours that it belongs to.
    children: HashMap<Box<str>, Arc<str>>,
    children_order: VecDeque<Box<str>>,
}

#[derive(Debug)]
struct RoutedThread {
    inbox: InboxSender,
    /// The id of the turn that is running in the thread.
    turn: Option<Box<str>>,
}

/// A thread that no longer has a listener.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct AbandonedThread {
    pub(super) thread: Arc<str>,
    pub(super) turn: Option<Box<str>>,
}

impl ThreadRoutes {
    pub(super) fn is_empty(&self) -> bool {
        self.threads.is_empty()
    }

    pub(super) fn add(&mut self, thread: Arc<str>, inbox: InboxSender) {
        self.threads.insert(thread, RoutedThread { inbox, turn: None });
    }

    pub(super) fn remove(&mut self, thread: &str) -> Option<AbandonedThread> {
        let (thread, removed) = self.threads.remove_entry(thread)?;
        self.children.retain(|_, parent| *parent != thread);
        Some(AbandonedThread { thread, turn: removed.turn })
    }

    /// Removes and returns the threads whose inbox was dropped without notice.
    pub(super) fn remove_closed(&mut self) -> Vec<AbandonedThread> {
        let gone = self.threads.iter().filter(|(_, thread)| thread.inbox.is_closed());
        let gone: Vec<Arc<str>> = gone.map(|(id, _)| Arc::clone(id)).collect();
        gone.iter().filter_map(|id| self.remove(id)).collect()
    }

    /// Delivers a notification. Returns the threads that could not take it and were removed.
    pub(super) fn deliver_notification(
        &mut self,
        method: &str,
        params: &RawValue,
    ) -> Vec<AbandonedThread> {
        let message =
            || ThreadMessage::Notification { method: method.into(), params: params.to_owned() };
        let route = Route::of(params);
        let Some(id) = route.thread else {
            let all: Vec<Arc<str>> = self.threads.keys().cloned().collect();
            let sent = all.iter().filter_map(|id| self.send(id, message()));
            return sent.collect();
        };
        if let Some(parent) = route.parent
            && let Some(parent) = self.owner(&parent)
        {
            self.add_child(&id, parent);
        }
        let Some(owner) = self.owner(&id) else {
            return Vec::new();
        };
        if let Some(thread) = self.threads.get_mut(&*id) {
            match method {
                "turn/started" => {
                    thread.turn = response::parse_turn_id(params).map(|id| (*id).into());
                }
                "turn/completed" => thread.turn = None,
                _ => {}
            }
        }
        self.send(&owner, message()).into_iter().collect()
    }

    /// Delivers a request. Returns an error response if the request belongs to no known thread.
    pub(super) fn deliver_request(
        &mut self,
        id: RequestId,
        method: &str,
        params: &RawValue,
    ) -> Result<Vec<AbandonedThread>, (RequestId, ErrorObject)> {
        let route = Route::of(params);
        let owner = route.thread.and_then(|thread| self.owner(&thread));
        let Some(owner) = owner else {
            let message = format!("nobody is there to answer `{method}`");
            return Err((id, ErrorObject::new(METHOD_NOT_FOUND, message)));
        };
        let message =
            ThreadMessage::Request { id, method: method.into(), params: params.to_owned() };
        Ok(self.send(&owner, message).into_iter().collect())
    }

    /// Reports a line over the length limit to the thread that it belongs to. The line itself is
    /// lost. If its beginning names no thread, all threads are notified.
    pub(super) fn deliver_too_long(&mut self, bytes: usize, head: &[u8]) -> Vec<AbandonedThread> {
        let head = String::from_utf8_lossy(head);
        let named = (self.threads.keys()).filter(|id| head.contains(&format!("\"{id}\"")));
        let mut to: Vec<Arc<str>> = named.cloned().collect();
        if to.is_empty() {
            to = self.threads.keys().cloned().collect();
        }
        let sent = to.iter().filter_map(|id| self.send(id, ThreadMessage::TooLong { bytes }));
        sent.collect()
    }

    fn owner(&self, thread: &str) -> Option<Arc<str>> {
        match self.threads.get_key_value(thread) {
            Some((id, _)) => Some(Arc::clone(id)),
            None => self.children.get(thread).cloned(),
        }
    }

    fn add_child(&mut self, child: &str, parent: Arc<str>) {
        if self.threads.contains_key(child) {
            return;
        }
        if self.children.insert(child.into(), parent).is_none() {
            self.children_order.push_back(child.into());
        }
        if self.children_order.len() > MAX_CHILDREN
            && let Some(oldest) = self.children_order.pop_front()
        {
            self.children.remove(&oldest);
        }
    }

    fn send(&mut self, thread: &Arc<str>, message: ThreadMessage) -> Option<AbandonedThread> {
        let sent = self.threads.get(thread)?.inbox.send(message);
        let reason = sent.err()?;
        if reason == ThreadInboxError::Full {
            tracing::warn!(%thread, "a thread was cut off: its inbox is full");
        }
        self.remove(thread)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::{
        super::inbox::{self, ThreadInbox},
        *,
    };

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).unwrap()
    }

    fn routes(threads: &[&str]) -> (ThreadRoutes, Vec<ThreadInbox>) {
        let mut routes = ThreadRoutes::default();
        let inboxes = threads.iter().map(|id| {
            let (sender, inbox) = inbox::inbox_channel();
            routes.add((*id).into(), sender);
            inbox
        });
        let inboxes = inboxes.collect();
        (routes, inboxes)
    }

    fn received_methods(inbox: &mut ThreadInbox) -> Vec<String> {
        let batch = inbox.recv_batch().now_or_never().unwrap_or_default();
        let name = |said: ThreadMessage| match said {
            ThreadMessage::Notification { method, .. } | ThreadMessage::Request { method, .. } => {
                method.into()
            }
            ThreadMessage::TooLong { .. } => "too long".to_owned(),
        };
        batch.into_iter().map(name).collect()
    }

    #[test]
    fn messages_go_to_their_thread_or_to_everybody() {
        let (mut routes, mut inboxes) = routes(&["a", "b"]);
        for (method, params) in [
            ("one", r#"{"threadId":"a"}"#),
            ("two", r#"{"thread":{"id":"b"}}"#),
            ("three", r#"{"conversationId":"b"}"#),
            ("all", "{}"),
            ("nobody", r#"{"threadId":"c"}"#),
            ("thread/started", r#"{"thread":{"id":"child","parentThreadId":"a"}}"#),
            ("thread/started", r#"{"thread":{"id":"grandchild","parentThreadId":"child"}}"#),
            ("of a child", r#"{"threadId":"grandchild"}"#),
        ] {
            assert!(routes.deliver_notification(method, &raw(params)).is_empty());
        }
        let id = RequestId::of(&raw("0")).unwrap();
        let asked = routes.deliver_request(id.clone(), "ask", &raw(r#"{"threadId":"child"}"#));
        assert!(asked.unwrap().is_empty());
        assert_eq!(
            received_methods(&mut inboxes[0]),
            ["one", "all", "thread/started", "thread/started", "of a child", "ask"]
        );
        assert_eq!(received_methods(&mut inboxes[1]), ["two", "three", "all"]);
        for params in [r#"{"threadId":"c"}"#, "{}"] {
            let (_, error) = routes.deliver_request(id.clone(), "ask", &raw(params)).unwrap_err();
            assert_eq!(error.code, METHOD_NOT_FOUND);
        }
        routes.deliver_too_long(9, b"{\"threadId\":\"b\",");
        assert!(received_methods(&mut inboxes[0]).is_empty());
        assert_eq!(received_methods(&mut inboxes[1]), ["too long"]);
    }

    #[test]
    fn whoever_has_gone_is_noticed_with_the_turn_he_left() {
        let (mut routes, mut inboxes) = routes(&["a", "b"]);
        let started = raw(r#"{"threadId":"a","turn":{"id":"t1"}}"#);
        assert!(routes.deliver_notification("turn/started", &started).is_empty());
        assert!(routes.remove_closed().is_empty());
        inboxes.remove(0);
        let abandoned = AbandonedThread { thread: "a".into(), turn: Some("t1".into()) };
        assert_eq!(routes.deliver_notification("x", &raw("{}")), [abandoned]);
        inboxes.clear();
        assert_eq!(routes.remove_closed().len(), 1);
        assert!(routes.is_empty());
    }
}
