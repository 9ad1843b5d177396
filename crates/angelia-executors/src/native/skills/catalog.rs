//! Finds the skills of a session. If two have the same name, the first one counts, in this order:
//! the owner's skills for Angelia, the owner's skills for all agents, and the project's skills,
//! nearest folder first. So a project cannot replace the owner's skills. A project that is not
//! trusted has none.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::front_matter::read_skill;
use crate::{
    native::instructions::{project_folders, read_start},
    truncation::truncate_chars,
};

/// The file of a skill in its folder.
const SKILL_FILE: &str = "SKILL.md";

/// The owner's skills for all agents, below the home.
const COMMON_FOLDER: &str = ".agents/skills";

/// The folders with a project's skills.
const PROJECT_FOLDERS: [&str; 2] = [COMMON_FOLDER, ".claude/skills"];

const MAX_SKILLS: usize = 200;
const MAX_NAME_CHARS: usize = 64;
const MAX_DESCRIPTION_CHARS: usize = 1024;

/// Only this much of a skill is read to find its head.
const MAX_HEAD_BYTES: usize = 16 * 1024;

/// A skill, of which only the head was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skill {
    pub name: String,
    pub description: String,
    /// Its `SKILL.md`.
    pub file: PathBuf,
}

/// The folders in which a session looks for skills.
#[derive(Clone, Copy, Debug)]
pub struct SkillPlaces<'a> {
    pub angelia_home: &'a Path,
    pub user_home: &'a Path,
    /// The session's directory as a real path, if it is trusted.
    pub project: Option<&'a Path>,
}

/// Returns the skills of a session, in order of precedence.
pub fn find_skills(places: &SkillPlaces<'_>) -> Vec<Skill> {
    let mut found = Vec::new();
    add_folder(&places.angelia_home.join("skills"), None, &mut found);
    add_folder(&places.user_home.join(COMMON_FOLDER), None, &mut found);
    if let Some(cwd) = places.project {
        let folders = project_folders(cwd);
        let root = folders.first().copied().unwrap_or(cwd);
        for folder in folders.iter().rev() {
            for name in PROJECT_FOLDERS {
                add_folder(&folder.join(name), Some(root), &mut found);
            }
        }
    }
    found
}

/// Adds the skills in a folder. `within`: the folder that must contain their real paths, because a
/// symlink in a project may lead anywhere.
fn add_folder(folder: &Path, within: Option<&Path>, found: &mut Vec<Skill>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let mut folders: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    folders.sort();
    for folder in folders {
        if found.len() == MAX_SKILLS {
            return;
        }
        let file = folder.join(SKILL_FILE);
        let is_inside = |root: &Path| file.canonicalize().is_ok_and(|real| real.starts_with(root));
        if !within.is_none_or(is_inside) {
            continue;
        }
        let Some(skill) = read_head(&folder, file) else { continue };
        if found.iter().all(|known| known.name != skill.name) {
            found.push(skill);
        }
    }
}

fn read_head(folder: &Path, file: PathBuf) -> Option<Skill> {
    let text = read_start(&file, MAX_HEAD_BYTES)?;
    let head = read_skill(&text);
    let name = head.name.or_else(|| Some(folder.file_name()?.to_str()?.to_owned()))?;
    let first_words = || head.body.lines().map(str::trim).find(|line| is_prose(line));
    let description = head.description.as_deref().or_else(first_words).unwrap_or_default();
    Some(Skill {
        name: printable(&name).chars().take(MAX_NAME_CHARS).collect(),
        description: truncate_chars(&printable(description), MAX_DESCRIPTION_CHARS).into_owned(),
        file,
    })
}

fn is_prose(line: &str) -> bool {
    !line.is_empty() && !line.starts_with('#') && !line.starts_with("---")
}

fn printable(text: &str) -> String {
    text.chars().filter(|char| !char.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Place {
        folder: tempfile::TempDir,
    }

    impl Place {
        fn new() -> Self {
            let place = Self { folder: tempfile::tempdir().unwrap() };
            fs::create_dir_all(place.path("repo/app")).unwrap();
            fs::create_dir_all(place.path("repo/.git")).unwrap();
            place
        }

        fn path(&self, below: &str) -> PathBuf {
            self.folder.path().canonicalize().unwrap().join(below)
        }

        fn write(&self, folder: &str, text: &str) {
            fs::create_dir_all(self.path(folder)).unwrap();
            fs::write(self.path(folder).join(SKILL_FILE), text).unwrap();
        }

        fn find(&self, is_trusted: bool) -> Vec<(String, String)> {
            let cwd = self.path("repo/app");
            let found = find_skills(&SkillPlaces {
                angelia_home: &self.path("home/.angelia"),
                user_home: &self.path("home"),
                project: is_trusted.then_some(&*cwd),
            });
            found.into_iter().map(|skill| (skill.name, skill.description)).collect()
        }
    }

    fn skill(name: &str, about: &str) -> String {
        format!("---\nname: {name}\ndescription: {about}\n---\ntext")
    }

    #[test]
    fn the_first_of_a_name_counts_and_a_project_needs_trust() {
        let place = Place::new();
        place.write("home/.angelia/skills/deploy", &skill("deploy", "ours"));
        place.write("home/.agents/skills/deploy", &skill("deploy", "of all agents"));
        place.write("home/.agents/skills/review", &skill("review", "of all agents"));
        place.write("repo/.claude/skills/deploy", &skill("deploy", "of the project"));
        place.write("repo/.claude/skills/test", &skill("test", "of the repository"));
        place.write("repo/app/.agents/skills/test", &skill("test", "of the app"));
        place.write("repo/app/.agents/skills/plain", "# Title\n\nFirst words.\n");
        fs::create_dir_all(place.path("repo/app/.agents/skills/empty")).unwrap();
        let pairs = |list: &[(&str, &str)]| -> Vec<(String, String)> {
            list.iter().map(|(name, about)| ((*name).into(), (*about).into())).collect()
        };
        assert_eq!(place.find(false), pairs(&[("deploy", "ours"), ("review", "of all agents")]));
        let all = [
            ("deploy", "ours"),
            ("review", "of all agents"),
            ("plain", "First words."),
            ("test", "of the app"),
        ];
        assert_eq!(place.find(true), pairs(&all));
    }

    #[test]
    fn a_link_out_of_a_project_is_no_skill() {
        let place = Place::new();
        place.write("elsewhere/secret", &skill("secret", "not of this project"));
        for folder in ["repo/app/.agents/skills", "home/.agents/skills"] {
            fs::create_dir_all(place.path(folder)).unwrap();
            let link = place.path(folder).join("linked");
            std::os::unix::fs::symlink(place.path("elsewhere/secret"), link).unwrap();
        }
        let home = place.find(false);
        assert_eq!(home.len(), 1, "the owner's links lead where the owner wants");
        fs::remove_file(place.path("home/.agents/skills/linked")).unwrap();
        assert_eq!(place.find(true), []);
    }
}
