//! Skills in our own loop: names in the prompt, texts by a tool, and those of a project only with trust.

use std::{
    fs,
    path::{Path, PathBuf},
};

use angelia_core::model::PermissionLevel;
use angelia_executors::scripted_model::Reply;
use serde_json::json;

use crate::loop_lab::{LoopLab, call, calls, in_each_api};

fn write_skill(folder: &Path, about: &str, body: &str) {
    fs::create_dir_all(folder).unwrap();
    let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
    let text = format!("---\nname: {name}\ndescription: {about}\n---\n\n{body}\n");
    fs::write(folder.join("SKILL.md"), text).unwrap();
}

fn angelia_home(lab: &LoopLab) -> PathBuf {
    lab.place.host.work_dir.parent().unwrap().to_owned()
}

#[tokio::test]
async fn a_skill_is_listed_and_loaded_when_it_is_needed() {
    in_each_api(async |lab| {
        write_skill(&angelia_home(&lab).join("skills/release"), "How to release.", "Tag it first.");
        let project = lab.place.isolated.work_dir().join(".claude/skills");
        write_skill(&project.join("deploy"), "How to deploy.", "Push the button.");
        let mut spec = lab.spec();
        // Nobody is asked about it, at any level.
        spec.permissions.level = PermissionLevel::Ask;
        let skill = |name: &str| calls([call("skill", json!({"name": name}))]);
        let replies = || [skill("release"), skill("deploy"), Reply::text("done")];

        let output = lab.turn_with(&spec, replies()).await;
        assert_eq!(output.answer(), "done", "{:?}", lab.api);
        let request = lab.last_request();
        assert!(request.contains("- release: How to release."), "{request:?}");
        assert!(!request.contains("How to deploy."), "the project is not trusted: {request:?}");
        let results = request.results();
        assert!(results[0].contains("Tag it first."), "{results:?}");
        assert!(
            results[1].contains("there is no skill `deploy`; there are: release"),
            "{results:?}"
        );

        spec.trust = true;
        lab.turn_with(&spec, replies()).await;
        let request = lab.last_request();
        assert!(request.contains("- deploy: How to deploy."), "{request:?}");
        assert!(request.results()[1].contains("Push the button."), "{request:?}");
    })
    .await;
}

#[tokio::test]
async fn without_skills_there_is_no_tool_for_them() {
    in_each_api(async |lab| {
        lab.turn([Reply::text("done")]).await;
        let request = lab.last_request();
        assert!(!request.contains("skill") && !request.contains("memory"), "{request:?}");
        // A tool that the profile refuses is not advertised either.
        write_skill(&angelia_home(&lab).join("skills/release"), "How to release.", "x");
        let mut spec = lab.spec();
        spec.permissions.disallowed = vec!["skill".parse().unwrap()];
        lab.turn_with(&spec, [Reply::text("done")]).await;
        assert!(!lab.last_request().contains("How to release."), "{:?}", lab.api);
    })
    .await;
}
