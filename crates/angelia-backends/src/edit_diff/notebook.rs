//! The cells of a Jupyter notebook as text, so that a change of one is a diff that people can read.
//! Pure.

use std::fmt::Write as _;

use angelia_core::model::CellChange;
use serde_json::Value;

/// The line before each cell's source.
const CELL_MARK: &str = "# %%";

/// Returns the notebook's cells as text, each below a line with its id. `None`: it is no notebook.
pub(super) fn cells_text(notebook: &str) -> Option<String> {
    Some(join(&parse(notebook)?))
}

/// Returns the cells as text after a change. `None`: there is no such cell, or it is no notebook.
pub(super) fn change_cell(notebook: &str, id: Option<&str>, change: &CellChange) -> Option<String> {
    let mut cells = parse(notebook)?;
    let at = match id {
        None => None,
        Some(id) => Some(find(&cells, id)?),
    };
    match change {
        CellChange::Replace(source) => cells.get_mut(at.unwrap_or(0))?.1 = source.to_string(),
        CellChange::Insert(source) => {
            let place = at.map_or(0, |at| at + 1);
            cells.insert(place, ("new".to_owned(), source.to_string()));
        }
        CellChange::Delete => {
            cells.remove(at?);
        }
    }
    Some(join(&cells))
}

/// Returns the ids and the sources of the cells.
fn parse(notebook: &str) -> Option<Vec<(String, String)>> {
    let notebook: Value = serde_json::from_str(notebook).ok()?;
    let cells = notebook.get("cells")?.as_array()?.iter().enumerate();
    Some(cells.map(|(index, cell)| (cell_id(index, cell), source(cell))).collect())
}

/// Cells of old notebooks have no id; agents then count them.
fn cell_id(index: usize, cell: &Value) -> String {
    cell.get("id").and_then(Value::as_str).map_or_else(|| format!("cell-{index}"), str::to_owned)
}

/// The source is a string, or a list of lines.
fn source(cell: &Value) -> String {
    match cell.get("source") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(lines)) => lines.iter().filter_map(Value::as_str).collect(),
        _ => String::new(),
    }
}

fn find(cells: &[(String, String)], id: &str) -> Option<usize> {
    let named = cells.iter().position(|(own, _)| own == id);
    let counted = || id.strip_prefix("cell-")?.parse().ok().filter(|at| *at < cells.len());
    named.or_else(counted)
}

fn join(cells: &[(String, String)]) -> String {
    let mut text = String::new();
    for (id, source) in cells {
        // Writing to a string cannot fail.
        let _infallible = writeln!(text, "{CELL_MARK} {id}\n{}", source.trim_end());
    }
    text
}
