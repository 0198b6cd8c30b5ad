//! What is counted of groups.

use super::*;

/// Proves COMMIT-29.
#[tokio::test(start_paused = true)]
async fn what_is_counted_follows_commits_deletions_and_expiry() {
    let stage = Stage::loaded().await;
    let mut registry = Registry::default();
    stage.groups.register_metrics(&mut registry);
    let count = |name: &str| {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).expect("text takes anything");
        text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok()).unwrap_or(-1.0)
    };
    for group in ["one", "two", "two"] {
        let commit = stage.commit(group, 1);
        stage.write();
        assert_eq!(commit_error(commit).await, None);
    }
    assert!((count("group_commits_total") - 3.0).abs() < 0.1);
    assert!((count("groups{state=\"Empty\"}") - 2.0).abs() < 0.1);
    let join = stage.join("three", "");
    stage.write();
    joined(join).await.result.expect("it has joined");
    assert!((count("group_members") - 1.0).abs() < 0.1);
    assert!((count("groups{state=\"CompletingRebalance\"}") - 1.0).abs() < 0.1);
    let delete = stage.groups.delete(ORG, op::DeleteGroups { groups: vec!["two".to_owned()] });
    stage.write();
    let Reply::DeleteGroups(deleted) = delete.reply().await.expect("no link is lost") else {
        panic!("it is answered as one")
    };
    assert_eq!(deleted.groups[0].1, None);
    assert!((count("groups{state=\"Empty\"}") - 1.0).abs() < 0.1);
    let before = count("group_bytes");
    stage.keep_nothing("one");
    stage.look_every_second().await;
    stage.write();
    assert!(count("groups{state=\"Empty\"}").abs() < 0.1, "a group goes with its last offset");
    assert!(count("group_bytes") < before);
    assert!(
        (count("group_committed_offsets_total") - 3.0).abs() < 0.1,
        "what was committed once stays counted"
    );
}
