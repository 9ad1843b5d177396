//! Ids as lists show them: as short as they still name one record.

use uuid::Uuid;

use crate::{
    model::{IdPrefix, write_id_start},
    ports::{RecordKind, Store, StoreError},
};

/// Fewer digits would soon name several records: ids start with a time, and eight digits are about
/// a minute of it.
const MIN_DIGITS: usize = 8;

/// How many ids with the same start are compared at once.
const MAX_COMPARED: usize = 32;

/// Returns the start of an id, at least eight digits of it, that no other id of its kind has now.
pub async fn short_id(store: &dyn Store, kind: RecordKind, id: Uuid) -> Result<String, StoreError> {
    let mut digits = MIN_DIGITS;
    loop {
        let similar = store.find_ids(kind, IdPrefix::of(id, digits), MAX_COMPARED).await?;
        let needed = similar.iter().filter(|other| **other != id).map(|other| {
            // The first digit in which they differ.
            (other.as_u128() ^ id.as_u128()).leading_zeros() as usize / 4 + 1
        });
        digits = needed.fold(digits, usize::max);
        // With a full page there may be more, which a longer start leaves out.
        if similar.len() < MAX_COMPARED {
            return Ok(write_id_start(id, digits));
        }
    }
}
