//! Every recording, as events.

use super::driver::{all, drive, spell};

#[test]
fn every_recording_reads_as_before() {
    for fixture in all() {
        let mut settings = insta::Settings::clone_current();
        settings.set_prepend_module_to_snapshot(false);
        settings.set_omit_expression(true);
        settings.set_snapshot_path("snapshots");
        settings.bind(|| {
            insta::assert_snapshot!(fixture.name.as_str(), spell(&drive(&fixture.lines)));
        });
    }
}
