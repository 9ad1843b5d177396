//! Which functions the program needs while hosts talk to it, for its layout in memory:
//! `cargo xtask layout` writes the linker script that `crates/angelia/build.rs` hands over.
//!
//! Callgrind sees which functions ran, over a few turns of the benchmarks; LLD's map tells which
//! sections they are, and of which crate. What changes with every compiler and every dependency
//! (the hashes in names) is left out of the script: it then matches a third more than what ran, and
//! most of it goes on matching.

use std::{
    collections::{HashMap, HashSet},
    fmt::Write as _,
    fs,
    path::Path,
    process::{ExitCode, Stdio},
};

use anyhow::{Context as _, Result, ensure};

use crate::{bench, program::succeed, setup};

/// What is needed most comes first: a process for one host is smaller than a daemon.
const SEEN_IN: [(&str, &[&str]); 2] =
    [("hosts", &["--rounds", "1"]), ("http", &["--rounds", "1", "--only", "fake"])];

const SCRIPT: &str = "crates/angelia/layout.ld";

pub(crate) fn run() -> Result<ExitCode> {
    setup::run()?;
    let folder = crate::root().join("target/layout");
    let is_plain = !folder.display().to_string().contains([' ', ',']);
    ensure!(is_plain, "the path of the workspace must have no space and no comma");
    fs::create_dir_all(&folder)?;
    let map = folder.join("map");
    let mut functions = Vec::new();
    for (name, arguments) in SEEN_IN {
        let seen = folder.join(name);
        if seen.exists() {
            fs::remove_dir_all(&seen)?;
        }
        fs::create_dir(&seen)?;
        let under = format!(
            "valgrind --tool=callgrind --demangle=no --callgrind-out-file={}/%p",
            seen.display()
        );
        let mut command = bench::command(name);
        // What it measures is callgrind.
        command
            .args(arguments)
            .stdout(Stdio::null())
            .env("ANGELIA_BENCH_UNDER", under)
            .env("ANGELIA_LINK_MAP", &map);
        succeed(&mut command)?;
        functions.extend(by_cost(&seen)?);
    }
    let map = fs::read_to_string(&map).context("no map; remove target/release/angelia")?;
    let rules = rules(&functions, &map);
    ensure!(!rules.is_empty(), "nothing that ran is in the map");
    fs::write(crate::root().join(SCRIPT), script(&rules))?;
    eprintln!("{SCRIPT}: {} rules", rules.len());
    Ok(ExitCode::SUCCESS)
}

/// All functions that ran, the busiest first.
fn by_cost(folder: &Path) -> Result<Vec<String>> {
    let mut costs = HashMap::new();
    for entry in fs::read_dir(folder)? {
        add_costs(&fs::read_to_string(entry?.path())?, &mut costs);
    }
    ensure!(!costs.is_empty(), "callgrind has seen nothing");
    let mut costs: Vec<(String, u64)> = costs.into_iter().collect();
    costs.sort_by(|(one, cost), (other, more)| more.cmp(cost).then_with(|| one.cmp(other)));
    Ok(costs.into_iter().map(|(name, _)| name).collect())
}

/// Callgrind's own format: `fn=(1) name` begins a function and names it once for the file,
/// `fn=(1)` later; lines of two numbers are its cost, except behind `calls=`, where they are the
/// cost of what it called.
fn add_costs(recorded: &str, costs: &mut HashMap<String, u64>) {
    let mut names: HashMap<&str, &str> = HashMap::new();
    let mut running = None;
    let mut is_call = false;
    for line in recorded.lines() {
        let function = |prefix| line.strip_prefix(prefix)?.split_once(')');
        if let Some((number, name)) = function("fn=(").or_else(|| function("cfn=(")) {
            // Recursion is told by a number behind the name.
            let name = name.trim_start().split('\'').next().unwrap_or_default();
            if !name.is_empty() {
                names.insert(number, name);
            }
            let name = names.get(number).copied().unwrap_or_default();
            costs.entry(name.to_owned()).or_default();
            if line.starts_with('f') {
                running = Some(name);
            }
        } else if line.starts_with("calls=") {
            is_call = true;
        } else if let Some((at, cost)) = line.split_once(' ')
            && at.starts_with(|first: char| first.is_ascii_digit() || "+-*".contains(first))
            && let Ok(cost) = cost.parse::<u64>()
            && !std::mem::take(&mut is_call)
            && let Some(total) = running.and_then(|name| costs.get_mut(name))
        {
            *total += cost;
        }
    }
}

/// A line of the script for every section of these functions, in their order.
fn rules(functions: &[String], map: &str) -> Vec<String> {
    let mut places: HashMap<&str, Vec<String>> = HashMap::new();
    for line in map.lines() {
        // `  address  address  size  align  /path/object:(.text.name)`
        if let Some((object, section)) = line.strip_suffix(')').and_then(|l| l.rsplit_once(":("))
            && let Some(name) = section.strip_prefix(".text.")
        {
            let name = name.strip_prefix("unlikely.").unwrap_or(name);
            let rule = format!("{}({})", objects(object), without_hashes(section));
            places.entry(name).or_default().push(rule);
        }
    }
    let mut known = HashSet::new();
    let all = functions.iter().filter_map(|name| places.get(&**name));
    all.flatten().filter(|rule| known.insert(*rule)).cloned().collect()
}

/// The objects of the same crate, in whatever build.
fn objects(path: &str) -> String {
    // In an archive: `libsqlite3.rlib(0123-sqlite3.o)`
    if let Some((_, member)) = path.rsplit_once('(') {
        let member = member.trim_end_matches(')');
        return match member.split_once('-') {
            Some((_, member)) => format!("*-{member}"),
            None => format!("*{member}"),
        };
    }
    // Optimised at the end: `angelia-01.tokio-23.tokio.45-cgu.0.rcgu.o`, `angelia-01.angelia.23-cgu.0.rcgu.o`
    let mut parts = path.rsplit('/').next().unwrap_or(path).split('.').skip(1);
    let (module, unit) = (parts.next(), parts.next());
    match module.map(|module| module.rsplit_once('-').ok_or(module)) {
        Some(Ok((krate, _))) => format!("*.{krate}-*"),
        Some(Err(krate)) if unit.is_some_and(|unit| unit.contains("-cgu")) => {
            format!("*.{krate}.*")
        }
        _ => "*".to_owned(),
    }
}

/// `_ZN…17h0123456789abcdefE` and `_R…Cs0123_4core…`, with a star for what only this build says.
fn without_hashes(section: &str) -> String {
    if let Some((name, _)) = section.split_once(".llvm.") {
        let name = without_hashes(name);
        return format!("{}*", name.trim_end_matches('*'));
    }
    if let Some((name, hash)) = section.rsplit_once("17h")
        && hash.len() == 17
        && hash.ends_with('E')
    {
        return format!("{name}17h*");
    }
    let mut parts = section.split("Cs");
    let mut name = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        name.push_str("Cs");
        match part.split_once('_') {
            Some((hash, rest)) if hash.bytes().all(|byte| byte.is_ascii_alphanumeric()) => {
                name.push_str("*_");
                name.push_str(rest);
            }
            _ => name.push_str(part),
        }
    }
    name
}

fn script(rules: &[String]) -> String {
    let mut script = String::from(
        "/* Written by `cargo xtask layout`: what runs while a host talks to us, the busiest first. */\n\
         SECTIONS {\n  .text.in_use : {\n",
    );
    for rule in rules {
        let _infallible = writeln!(script, "    {rule}");
    }
    script.push_str("  }\n}\nINSERT BEFORE .text;\n");
    script
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_of_a_call_is_not_the_callers() {
        let recorded = "fn=(1) main\n16 100\ncfn=(2) work\ncalls=1 0\n16 5000\n+1 20\n\
             fn=(2)\n0 4000\nfn=(3) work'2\n* 1000\n";
        let mut costs = HashMap::new();
        add_costs(recorded, &mut costs);
        assert_eq!(costs.remove("main"), Some(120));
        assert_eq!(costs.remove("work"), Some(5000));
        assert!(costs.is_empty());
    }

    #[test]
    fn a_rule_holds_for_other_builds_of_the_same_crate() {
        let map = "\
          10 10 1 1         /a/angelia-01.tokio-23.tokio.45-cgu.0.rcgu.o.rcgu.o:(.text._ZN5tokio4poll17h0123456789abcdefE)
          20 20 1 1         /a/angelia-01.angelia.23-cgu.0.rcgu.o:(.text._ZN7angelia4main17hfedcba9876543210E.llvm.77)
          30 30 1 1         /a/libsqlite3_sys-01.rlib(02-sqlite3.o):(.text.unlikely.sqlite3_step)
          40 40 1 1         /a/angelia-01.std-2.std.3-cgu.0.rcgu.o.rcgu.o:(.text._RNvNtCsjrHS_3std2io4read)
          50 50 1 1         /a/angelia-01.std-2.std.3-cgu.0.rcgu.o.rcgu.o:(.text._RNvNtCsjrHS_3std2io5never)
          60 60 1 1         /a/angelia-01.std-2.std.3-cgu.0.rcgu.o.rcgu.o:(.text._RNvNtCsjrHS_3std2io5write.llvm.42)
        ";
        let ran = [
            "sqlite3_step",
            "_ZN7angelia4main17hfedcba9876543210E.llvm.77",
            "_RNvNtCsjrHS_3std2io4read",
            "_ZN5tokio4poll17h0123456789abcdefE",
            "_RNvNtCsjrHS_3std2io5write.llvm.42",
            "in_a_library",
        ];
        let expected = [
            "*-sqlite3.o(.text.unlikely.sqlite3_step)",
            "*.angelia.*(.text._ZN7angelia4main17h*)",
            "*.std-*(.text._RNvNtCs*_3std2io4read)",
            "*.tokio-*(.text._ZN5tokio4poll17h*)",
            "*.std-*(.text._RNvNtCs*_3std2io5write*)",
        ];
        assert_eq!(rules(&ran.map(str::to_owned), map), expected);
    }
}
