//! Short ids for lists: prefixes that name exactly one record.

use uuid::Uuid;

use crate::{
    model::write_id_start,
    ports::{RecordKind, Store, StoreError},
};

/// Fewer digits would soon be ambiguous: ids start with a timestamp, and eight digits cover about a
/// minute.
const MIN_DIGITS: usize = 8;

/// Returns a prefix of an id, at least eight digits long, that no other id of its kind has at the
/// moment.
pub async fn short_id(store: &dyn Store, kind: RecordKind, id: Uuid) -> Result<String, StoreError> {
    let mut found = short_ids(store, kind, vec![id]).await?;
    Ok(found.pop().unwrap_or_else(|| write_id_start(id, MIN_DIGITS)))
}

/// Returns such a prefix for each of the ids.
pub(super) async fn short_ids(
    store: &dyn Store,
    kind: RecordKind,
    ids: Vec<Uuid>,
) -> Result<Vec<String>, StoreError> {
    let neighbours = store.neighbours(kind, ids.clone()).await?;
    let short = ids.iter().zip(neighbours).map(|(id, neighbours)| {
        // Ids are sorted, so no other id shares more digits with this one than its neighbours do.
        let needed = neighbours
            .into_iter()
            .flatten()
            .map(|other| (other.as_u128() ^ id.as_u128()).leading_zeros() as usize / 4 + 1);
        write_id_start(*id, needed.fold(MIN_DIGITS, usize::max))
    });
    Ok(short.collect())
}
