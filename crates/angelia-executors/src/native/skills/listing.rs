//! The list of skills in the prompt. It takes up at most 2 % of the model's window. With many
//! skills, descriptions are first shortened, then left out, and finally names are left out too.

use std::fmt::Write as _;

use super::Skill;
use crate::truncation::truncate_chars;

const TITLE: &str =
    "\nSkills: instructions for particular tasks. Load one with `skill` before such a task.\n";

/// The maximum lengths of descriptions to try, from complete to none.
const DESCRIPTION_CHARS: [usize; 5] = [1024, 300, 120, 50, 0];

/// The list's share of the window, and the minimum number of bytes per token.
const PERCENT_OF_WINDOW: u64 = 2;
const BYTES_PER_TOKEN: u64 = 3;

/// Returns the list of skills for a window of this many tokens; empty if there are none.
pub fn list_skills(skills: &[Skill], window: u64) -> String {
    if skills.is_empty() {
        return String::new();
    }
    let room = usize::try_from(window * PERCENT_OF_WINDOW / 100 * BYTES_PER_TOKEN);
    let room = room.unwrap_or(usize::MAX);
    let lists = DESCRIPTION_CHARS.iter().map(|chars| write_list(skills, *chars));
    lists.into_iter().find(|list| list.len() <= room).unwrap_or_else(|| names_within(skills, room))
}

fn write_list(skills: &[Skill], description_chars: usize) -> String {
    let mut list = TITLE.to_owned();
    for Skill { name, description, .. } in skills {
        let _infallible = if description.is_empty() || description_chars == 0 {
            writeln!(list, "- {name}")
        } else {
            writeln!(list, "- {name}: {}", truncate_chars(description, description_chars))
        };
    }
    list
}

/// Returns as many names as there is room for.
fn names_within(skills: &[Skill], room: usize) -> String {
    let mut list = TITLE.to_owned();
    for (place, skill) in skills.iter().enumerate() {
        let rest = format!("and {} more\n", skills.len() - place);
        if list.len() + skill.name.len() + 3 + rest.len() > room {
            list.push_str(&rest);
            break;
        }
        let _infallible = writeln!(list, "- {}", skill.name);
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skills(count: usize) -> Vec<Skill> {
        let skill = |number| Skill {
            name: format!("skill-{number}"),
            description: "Does one thing, and does it well. ".repeat(20).trim().to_owned(),
            file: "SKILL.md".into(),
        };
        (0..count).map(skill).collect()
    }

    #[test]
    fn the_list_has_at_most_two_percent_of_the_window() {
        assert_eq!(list_skills(&[], 200_000), "");
        for (count, window) in
            [(1, 200_000), (10, 200_000), (60, 200_000), (3, 8_192), (200, 32_768)]
        {
            let skills = skills(count);
            let list = list_skills(&skills, window);
            assert!(list.len() as u64 <= window * 6 / 100, "{count} {window}: {}", list.len());
            let named = skills.iter().filter(|skill| list.contains(&format!("- {}", skill.name)));
            let is_cut = list.contains(" more\n");
            assert_eq!(named.count() == count, !is_cut, "{list}");
        }
        let whole = list_skills(&skills(2), 200_000);
        assert_eq!(whole.matches("and does it well.").count(), 40, "{whole}");
        assert!(list_skills(&skills(60), 32_768).lines().count() > 60);
    }
}
