//! The encoded elements of the array at the end of a request. Cache marks move from request to
//! request, so elements are kept without marks, together with the places where a mark can go.

use memchr::memmem;
use serde::Serialize;

use super::messages::CacheMark;

/// The number of newest places that get a mark.
const MARKS: usize = 2;

/// The bytes after the last element.
const CLOSING: &[u8] = b"]}";

/// Elements of an array, each with a comma after it.
#[derive(Debug, Default)]
pub(super) struct ElementList {
    bytes: Vec<u8>,
    /// The offsets at which a mark can be inserted, in ascending order.
    mark_places: Vec<usize>,
}

impl ElementList {
    pub(super) fn push(&mut self, element: &impl Serialize) {
        // Requests have string keys and no parts that can fail to serialise.
        let _infallible = serde_json::to_writer(&mut self.bytes, element);
        self.bytes.push(b',');
    }

    /// Adds an element with a mark, removes the mark and remembers its place. All other content of
    /// the element must be strings, in which the mark cannot occur unescaped.
    pub(super) fn push_marked(&mut self, element: &impl Serialize) {
        let start = self.bytes.len();
        self.push(element);
        let mark = CacheMark::FIELD.as_bytes();
        if let Some(place) = memmem::rfind(&self.bytes[start..], mark) {
            let place = start + place;
            self.bytes.drain(place..place + mark.len());
            self.mark_places.push(place);
        }
    }

    /// Appends two lists to the array at the end of `head`, with marks at the newest places.
    pub(super) fn join(head: Vec<u8>, first: &Self, second: &Self) -> Vec<u8> {
        let mut body = head;
        body.truncate(body.len().saturating_sub(CLOSING.len()));
        let marks = MARKS * CacheMark::FIELD.len();
        body.reserve_exact(first.bytes.len() + second.bytes.len() + marks + CLOSING.len() + 1);
        if !body.ends_with(b"[") {
            body.push(b',');
        }
        let starts = [body.len(), body.len() + first.bytes.len()];
        body.extend_from_slice(&first.bytes);
        body.extend_from_slice(&second.bytes);
        let places = |list: &Self, start: usize| -> Vec<usize> {
            list.mark_places.iter().rev().take(MARKS).map(|place| start + place).collect()
        };
        let newest = [places(second, starts[1]), places(first, starts[0])].concat();
        // Insert from the end, so that earlier places stay valid.
        for place in newest.into_iter().take(MARKS) {
            body.splice(place..place, CacheMark::FIELD.bytes());
        }
        if body.ends_with(b",") {
            body.pop();
        }
        body.extend_from_slice(CLOSING);
        body
    }
}
