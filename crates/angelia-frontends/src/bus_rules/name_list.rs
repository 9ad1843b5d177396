//! Deserializes one name or a list of names.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};

#[derive(Debug, Default)]
pub(super) struct NameList(pub(super) Vec<String>);

impl<'de> Deserialize<'de> for NameList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NameListVisitor)
    }
}

struct NameListVisitor;

impl<'de> Visitor<'de> for NameListVisitor {
    type Value = NameList;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name, or a list of names")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<NameList, E> {
        Ok(NameList(vec![name.to_owned()]))
    }

    fn visit_i64<E: Error>(self, name: i64) -> Result<NameList, E> {
        Ok(NameList(vec![name.to_string()]))
    }

    fn visit_u64<E: Error>(self, name: u64) -> Result<NameList, E> {
        Ok(NameList(vec![name.to_string()]))
    }

    fn visit_unit<E: Error>(self) -> Result<NameList, E> {
        Ok(NameList::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<NameList, A::Error> {
        let mut names = Vec::new();
        while let Some(name) = items.next_element()? {
            names.push(name);
        }
        Ok(NameList(names))
    }
}
