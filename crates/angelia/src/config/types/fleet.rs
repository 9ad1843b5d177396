//! The block of a record on a server, which several machines will share.

use angelia_backends::store::PostgresAddress;
use serde::Serialize;

use crate::config::{
    schema::inline_schema,
    setting::{Setting, TextSetting, ValueCursor, settings},
};

/// The address of a Postgres database, without a password.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct StoreAddress(pub(crate) String);

inline_schema!(StoreAddress, {"type": "string", "pattern": "^postgres(ql)?://"});

impl Setting for StoreAddress {
    fn expects() -> String {
        "an address such as postgres://angelia@localhost/angelia".to_owned()
    }

    fn read(place: &ValueCursor<'_>) -> Option<Self> {
        let Some(text) = place.text() else { return place.mismatch(&Self::expects()) };
        match PostgresAddress::check(text) {
            Ok(()) => Some(Self(text.to_owned())),
            // Without the value itself: there may be a password in it.
            Err(error) => place.reject(error.problem()),
        }
    }
}

/// The name of a machine for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct MachineName(pub(crate) String);

const MAX_NAME_BYTES: usize = 64;

inline_schema!(MachineName, {"type": "string", "pattern": "^[A-Za-z0-9_.-]+$", "maxLength": MAX_NAME_BYTES});

impl TextSetting for MachineName {
    const EXPECTS: &'static str = "a name of letters, digits, `_`, `-` and `.`";

    fn parse(text: &str) -> Option<Self> {
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
        let fits = (1..=MAX_NAME_BYTES).contains(&text.len()) && text.chars().all(is_allowed);
        fits.then(|| Self(text.to_owned()))
    }
}

settings! {
    /// The record on a server.
    Fleet {
        /// The Postgres database that holds sessions, turns and events, instead of `state.db` in the home. The
        /// password comes from `ANGELIA_STORE_PASSWORD` or from the file `PGPASSFILE`. A server elsewhere must
        /// prove its name (`sslmode=verify-full`, with the system's certificates or `sslrootcert=FILE`); on a
        /// network that you trust, write `?sslmode=disable`.
        store: Option<StoreAddress> = None,
        /// The name of this machine; null: its host name.
        machine: Option<MachineName> = None,
    }
}
