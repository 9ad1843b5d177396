//! Tests the content of each kind of package.

use std::{collections::BTreeMap, io::Read as _};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use flate2::read::GzDecoder;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{STAND_IN, payload, release, target};
use crate::dist::{archive, deb, npm, wheel};

/// The attributes of a file in a tar archive.
#[derive(Debug)]
struct TarFile {
    mode: u32,
    owner: u64,
    link: Option<String>,
    bytes: Vec<u8>,
}

fn read_tar_gz(bytes: &[u8]) -> BTreeMap<String, TarFile> {
    let mut tar = tar::Archive::new(GzDecoder::new(bytes));
    let files = tar.entries().unwrap().map(|entry| {
        let mut entry = entry.unwrap();
        let path = entry.path().unwrap().to_string_lossy().into_owned();
        let link = entry.link_name().unwrap().map(|link| link.to_string_lossy().into_owned());
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        let header = entry.header();
        let file =
            TarFile { mode: header.mode().unwrap(), owner: header.uid().unwrap(), link, bytes };
        (path, file)
    });
    files.collect()
}

#[test]
fn the_archive_has_everything_below_one_folder() {
    let (release, target, payload) = (release(), target(), payload());
    let packed = archive::pack(&release, target, &payload).unwrap();
    let files = read_tar_gz(&packed);
    let top = format!("angelia-9.9.9-{}", target.triple);
    assert_eq!(archive::file_name(&release, target), format!("{top}.tar.gz"));
    assert!(files.keys().all(|path| path.starts_with(&top)), "{:?}", files.keys());
    let program = &files[&format!("{top}/bin/angelia")];
    assert_eq!((program.mode, program.owner, program.bytes.as_slice()), (0o755, 0, STAND_IN));
    let link = &files[&format!("{top}/libexec/angelia/hermes/hermes-busd")];
    assert_eq!(link.link.as_deref(), Some("../../../bin/angelia"));
    for path in ["share/man/man1/angelia.1", "share/systemd/user/angelia.service"] {
        assert_eq!(files[&format!("{top}/{path}")].mode, 0o644, "{path}");
    }
    let again = archive::pack(&release, target, &payload).unwrap();
    assert!(packed == again, "the same files must give the same bytes");
}

#[test]
fn hermes_names_are_in_no_folder_of_programs() {
    for file in payload().files {
        let is_hermes = file.path.contains("hermes") || file.path.contains("notify");
        assert!(!is_hermes || file.path.starts_with("libexec/angelia/hermes/"), "{}", file.path);
    }
}

#[test]
fn the_deb_is_what_dpkg_expects() {
    let packed = deb::pack(&release(), target(), &payload()).unwrap();
    let mut members = Vec::new();
    let mut ar = ar::Archive::new(packed.as_slice());
    while let Some(entry) = ar.next_entry() {
        let mut entry = entry.unwrap();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        members.push((String::from_utf8_lossy(entry.header().identifier()).into_owned(), bytes));
    }
    let names: Vec<&str> = members.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["debian-binary", "control.tar.gz", "data.tar.gz"]);
    assert_eq!(members[0].1, b"2.0\n");
    let control = read_tar_gz(&members[1].1);
    let control = String::from_utf8_lossy(&control["control"].bytes).into_owned();
    for line in ["Package: angelia", "Version: 9.9.9", "Description: A stand-in"] {
        assert!(control.lines().any(|it| it == line), "{control}");
    }
    let data = read_tar_gz(&members[2].1);
    assert_eq!(data["usr/bin/angelia"].mode, 0o755);
    let unit = &data["usr/lib/systemd/user/angelia.service"];
    let unit = String::from_utf8_lossy(&unit.bytes);
    assert!(unit.contains("ExecStart=\"/usr/bin/angelia\" serve"), "{unit}");
    let mut page = String::new();
    let compressed = data["usr/share/man/man1/angelia.1.gz"].bytes.as_slice();
    GzDecoder::new(compressed).read_to_string(&mut page).unwrap();
    assert_eq!(page, ".TH angelia 1\n");
    assert!(data.contains_key("usr/share/doc/angelia/copyright"));
}

#[test]
fn the_npm_package_runs_nothing_and_cannot_be_published() {
    let (release, target) = (release(), target());
    let files = read_tar_gz(&npm::pack(&release, target, &payload()).unwrap());
    let manifest: Value = serde_json::from_slice(&files["package/package.json"].bytes).unwrap();
    assert_eq!(manifest["private"], true);
    assert_eq!(manifest["bin"], json!({ "angelia": "bin/angelia" }));
    assert_eq!(manifest["cpu"], json!([target.node]));
    assert_eq!(manifest["man"], json!(["share/man/man1/angelia.1"]));
    assert!(manifest.get("scripts").is_none() && manifest.get("dependencies").is_none());
    assert_eq!(files["package/bin/angelia"].bytes, STAND_IN);
    assert!(files.contains_key("package/LICENSE-MIT"));
}

#[test]
fn the_wheel_lists_its_files_and_cannot_be_published() {
    let (release, target) = (release(), target());
    let packed = wheel::pack(&release, target, &payload()).unwrap();
    let mut zip = zip::ZipArchive::new(std::io::Cursor::new(packed)).unwrap();
    let mut files = BTreeMap::new();
    for at in 0..zip.len() {
        let mut file = zip.by_index(at).unwrap();
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).unwrap();
        files.insert(file.name().unwrap().into_owned(), (file.unix_mode(), bytes));
    }
    let text = |path: &str| String::from_utf8_lossy(&files[path].1).into_owned();
    let record = text("angelia-9.9.9.dist-info/RECORD");
    assert_eq!(record.lines().count(), files.len());
    for line in record.lines().filter(|line| !line.ends_with(",,")) {
        let [path, sum, size] = line.split(',').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let bytes = &files[path].1;
        let expected = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(bytes));
        assert_eq!((sum, size), (&*format!("sha256={expected}"), &*bytes.len().to_string()));
    }
    let (mode, program) = &files["angelia-9.9.9.data/scripts/angelia"];
    assert_eq!((mode.unwrap() & 0o777, program.as_slice()), (0o755, STAND_IN));
    assert!(files.contains_key("angelia-9.9.9.data/data/share/man/man1/angelia.1"));
    assert!(text("angelia-9.9.9.dist-info/METADATA").contains("Private :: Do Not Upload"));
    let tag = format!("Tag: py3-none-manylinux_2_17_{}\n", target.machine);
    assert!(text("angelia-9.9.9.dist-info/WHEEL").contains(&tag));
    assert!(wheel::file_name(&release, target).contains("manylinux_2_17_"));
}
