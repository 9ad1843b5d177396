//! Deserializes one name or a list of names.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};

#[derive(Debug, Default)]
pub(super) struct Names(pub(super) Vec<String>);

impl<'de> Deserialize<'de> for Names {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NamesVisitor)
    }
}

struct NamesVisitor;

impl<'de> Visitor<'de> for NamesVisitor {
    type Value = Names;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name, or a list of names")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Names, E> {
        Ok(Names(vec![name.to_owned()]))
    }

    fn visit_i64<E: Error>(self, name: i64) -> Result<Names, E> {
        Ok(Names(vec![name.to_string()]))
    }

    fn visit_u64<E: Error>(self, name: u64) -> Result<Names, E> {
        Ok(Names(vec![name.to_string()]))
    }

    fn visit_unit<E: Error>(self) -> Result<Names, E> {
        Ok(Names::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Names, A::Error> {
        let mut names = Vec::new();
        while let Some(name) = items.next_element()? {
            names.push(name);
        }
        Ok(Names(names))
    }
}
