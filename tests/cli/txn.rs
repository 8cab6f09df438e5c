//! `kafka-2pc txn`: transactions that others prepared, left open, or lost a marker of.
use std::time::Duration;

use crate::program::{Outcome, Ran, Stage, json_lines};
use kafka_2pc::{
    broker::Profile,
    client::{Client, ClientConfig, Prepared},
    ids::{TopicPartition, TransactionalId},
    proto::committable::Committable,
    record::RecordRef,
};

const PROFILES: [fn() -> Profile; 2] = [Profile::kafka_4_4, Profile::kafka_4_4_v1];

fn only(ran: &Ran) -> serde_json::Value {
    let mut lines = json_lines(&ran.out);
    assert_eq!(lines.len(), 1, "{ran:?}");
    lines.remove(0)
}

#[track_caller]
fn is(ran: &Ran, code: i32, outcome: &str) {
    assert_eq!((ran.code, only(ran)["outcome"].as_str()), (Some(code), Some(outcome)), "{ran:?}");
}

async fn read(stage: &Stage) -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let ran = stage.run("cat --topic t --until-end").await?;
    Ok(ran.out.lines().map(str::to_owned).collect())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_process_commits_and_a_second_run_says_so() -> Outcome {
    for profile in PROFILES {
        let stage = Stage::new(profile(), 1).await?;
        stage.broker.create_topic("t", 2)?;
        let (_, file) = stage.prepared("t", "job-0-0", &["one", "two", "three"]).await?;
        let before = std::fs::read(&file)?;
        is(&stage.run(&format!("txn commit {file} --json")).await?, 0, "committed");
        assert_eq!(read(&stage).await?.len(), 3);
        let ran = stage.run(&format!("txn commit {file} --json")).await?;
        is(&ran, 0, "already-committed");
        let object = only(&ran);
        assert_eq!((&object["file"], &object["transactional_id"]), (&file.clone().into(), &"job-0-0".into()));
        assert_eq!(object["partitions"].as_array().map(Vec::len), Some(2));
        assert_eq!(std::fs::read(&file)?, before);
        let ran = stage.run(&format!("txn commit {file}")).await?;
        assert!(ran.out.contains("already committed"), "{ran:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_timed_out_is_lost_with_partitions_and_offsets() -> Outcome {
    for profile in PROFILES {
        let stage = Stage::new(profile(), 1).await?;
        stage.broker.create_topic("t", 1)?;
        stage.open("t", "before", &["zero"]).await?.commit().await?;
        let topic = stage.client.topic("t").await?;
        let producer = stage.client.transactional_producer(TransactionalId::new("job-0-0"));
        let producer = producer.transaction_timeout(Duration::from_millis(200)).init().await?;
        let mut transaction = producer.begin();
        transaction.send(&topic, None, RecordRef::value(b"late")).await?;
        let Prepared::Ready(committable) = transaction.prepare().await? else { return Err("empty".into()) };
        let file = stage.path("late.committable");
        std::fs::write(&file, committable.to_bytes())?;
        tokio::time::sleep(Duration::from_millis(300)).await;
        stage.broker.sweep_timeouts();
        let ran = stage.run(&format!("txn commit {} --json", file.display())).await?;
        is(&ran, 3, "lost");
        let partition = &only(&ran)["partitions"][0];
        assert_eq!((&partition["topic"], &partition["partition"]), (&"t".into(), &0.into()));
        assert_eq!(partition["offset"], committable.partitions[0].offset);
        // A repair says so, too, by the coordinator's entry and, when another transaction has replaced that, by the log.
        for _ in 0..2 {
            let ran = stage.run(&format!("txn repair {} --json", file.display())).await?;
            is(&ran, 3, "lost");
            assert!(ran.out.contains("it was aborted"), "{ran:?}");
            let described = only(&stage.run(&format!("txn describe {} --json", file.display())).await?);
            assert_eq!(described["cluster"]["decision"], "abort", "{described}");
            stage.open("t", "job-0-0", &["after"]).await?.commit().await?;
        }
        // Beside another one that commits, the worst code wins.
        let (_, good) = stage.prepared("t", "job-0-1", &["good"]).await?;
        let ran = stage.run(&format!("txn commit {good} {}", file.display())).await?;
        assert_eq!((ran.code, ran.out.lines().count()), (Some(3), 2), "{ran:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_log_and_coordinator_entry_it_is_undecidable() -> Outcome {
    for profile in PROFILES {
        let stage = Stage::new(profile(), 1).await?;
        stage.broker.create_topic("t", 1)?;
        let (_, file) = stage.prepared("t", "job-0-0", &["one"]).await?;
        is(&stage.run(&format!("txn commit {file} --json")).await?, 0, "committed");
        let place = TopicPartition::new("t", 0);
        stage.broker.delete_records(&place, -1)?;
        assert!(stage.broker.expire_transactional_id("job-0-0"));
        let ran = stage.run(&format!("txn commit {file} --json")).await?;
        is(&ran, 4, "undecidable");
        assert!(ran.out.contains("does not know the id"), "{ran:?}");
    }
    Ok(())
}

/// Two nodes; the topic is on one of them alone, the id's coordinator on the other.
struct Lonely {
    stage: Stage,
    node: i32,
    id: String,
}

async fn lonely(profile: Profile) -> Result<Lonely, Box<dyn std::error::Error>> {
    let stage = Stage::new(profile, 2).await?;
    let node = 2;
    stage.broker.create_topic_on("t", vec![vec![node], vec![1]])?;
    let id =
        (0..).map(|n| format!("job-0-{n}")).find(|id| stage.broker.transaction_coordinator(id) == Some(1));
    Ok(Lonely { stage, node, id: id.ok_or("no id")? })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_waits_for_a_leader_and_names_the_partition() -> Outcome {
    for profile in PROFILES {
        let Lonely { stage, node, id } = lonely(profile()).await?;
        let (_, file) = stage.prepared("t", &id, &["one", "two"]).await?;
        stage.broker.stop_node(node).await?;
        let ran = stage.run(&format!("txn commit {file} --json --timeout 1s")).await?;
        is(&ran, 1, "pending");
        assert!(ran.out.contains("t-0"), "{ran:?}");
        stage.broker.start_node(node).await?;
        is(&stage.run(&format!("txn commit {file} --json")).await?, 0, "committed");
        is(&stage.run(&format!("txn repair {file} --json")).await?, 0, "settled");
        assert_eq!(read(&stage).await?.len(), 2);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_hangs_is_told_and_repaired() -> Outcome {
    for profile in PROFILES {
        let Lonely { stage, node, id } = lonely(profile()).await?;
        let (_, file) = stage.prepared("t", &id, &["one", "two"]).await?;
        stage.broker.stop_node(node).await?;
        let ran = stage.run(&format!("txn commit {file} --no-wait-for-leader --json --timeout 3s")).await?;
        is(&ran, 1, "hanging");
        assert!(ran.out.contains("t-0"), "{ran:?}");
        is(&stage.run(&format!("txn repair {file} --json --timeout 2s")).await?, 1, "pending");
        stage.broker.start_node(node).await?;
        let ran = stage.run(&format!("txn commit {file} --json")).await?;
        is(&ran, 1, "hanging");
        assert_eq!(only(&ran)["partitions"][0]["partition"], 0, "{ran:?}");
        let described = only(&stage.run(&format!("txn describe {file} --json")).await?);
        assert_eq!(described["cluster"]["decision"], "commit", "{described}");
        let ran = stage.run(&format!("txn abort {id} --force --json")).await?;
        is(&ran, 1, "refused");
        assert!(ran.out.contains("t-0"), "{ran:?}");
        is(&stage.run(&format!("txn repair {file} --json")).await?, 0, "repaired");
        assert_eq!(read(&stage).await?.len(), 2);
        is(&stage.run(&format!("txn commit {file} --json")).await?, 0, "already-committed");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_transaction_is_aborted_and_a_prepared_one_only_by_force() -> Outcome {
    for profile in PROFILES {
        let stage = Stage::new(profile(), 1).await?;
        stage.broker.create_topic("t", 1)?;
        let (_, file) = stage.prepared("t", "job-0-0", &["one"]).await?;
        let state = stage.path("state");
        std::fs::create_dir_all(state.join("committables"))?;
        let state = state.display();
        std::fs::copy(&file, format!("{state}/committables/x.committable"))?;
        for words in
            ["txn abort job-0-0 --json".to_owned(), format!("txn abort job-0-0 --state {state} --json")]
        {
            is(&stage.run(&words).await?, 1, "refused");
        }
        let open = stage.open("t", "other", &["two"]).await?;
        // A state of another job says nothing of the id.
        let ran = stage.run(&format!("txn abort other --state {state} --json")).await?;
        is(&ran, 1, "refused");
        assert!(ran.out.contains("no state that was given belongs to its job"), "{ran:?}");
        let ran = stage.run("txn abort other --force --json").await?;
        is(&ran, 0, "aborted");
        assert_eq!(only(&ran)["partitions"][0]["topic"], "t");
        assert!(open.commit().await.is_err());
        is(&stage.run("txn abort job-0-0 --force --json").await?, 0, "aborted");
        is(&stage.run("txn abort job-0-0 --json").await?, 0, "nothing-open");
        is(&stage.run("txn abort never-used --json").await?, 0, "nothing-open");
        is(&stage.run(&format!("txn commit {file} --json")).await?, 3, "lost");
        assert!(read(&stage).await?.is_empty());
    }
    Ok(())
}

/// Also before the first complete checkpoint, and after a change of the prefix.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_state_of_its_job_is_enough_to_abort_what_a_crash_left_open() -> Outcome {
    let stage = Stage::new(Profile::kafka_4_4(), 1).await?;
    stage.broker.create_topic("t", 1)?;
    let (input, mine, foreign) = (stage.path("input"), stage.path("mine"), stage.path("foreign"));
    std::fs::write(&input, "one\ntwo\n")?;
    let (mine, foreign) = (mine.display(), foreign.display());
    let pipe = format!("pipe --topic t --input {} --state", input.display());
    assert_eq!(stage.run(&format!("{pipe} {foreign}")).await?.code, Some(0));
    let open = |ran: &Ran| {
        json_lines(&ran.out).iter().map(|l| l["transactional_id"].as_str().map(str::to_owned)).next()
    };
    let mut lines = "one\ntwo\n".to_owned();
    for options in ["", "--transactional-id-prefix other"] {
        let crashed = stage.run_to(&format!("{pipe} {mine} {options}"), Some("prepared")).await?;
        assert_eq!(crashed.code, None, "{crashed:?}");
        let id = open(&stage.run("txn list --open --json").await?).flatten().ok_or("nothing is open")?;
        is(&stage.run(&format!("txn abort {id} --state {foreign} --json")).await?, 1, "refused");
        let ran = stage.run(&format!("txn abort {id} --state {foreign} --state {mine} --json")).await?;
        is(&ran, 0, "aborted");
        // What another prefix begins is known once a checkpoint of its run is complete.
        let ran = stage.run(&format!("{pipe} {mine} --transactional-id-prefix other")).await?;
        assert_eq!(ran.code, Some(0), "{ran:?}");
        lines.push_str("more\n");
        std::fs::write(&input, &lines)?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_being_decided_is_left_to_its_coordinator() -> Outcome {
    let stage = Stage::new(Profile::kafka_4_4(), 1).await?;
    stage.broker.create_topic("t", 1)?;
    let (_, file) = stage.prepared("t", "job-0-0", &["one"]).await?;
    is(&stage.run(&format!("txn repair {file} --json")).await?, 1, "refused");
    stage.broker.hold_markers();
    is(&stage.run(&format!("txn commit {file} --json --timeout 1s")).await?, 1, "pending");
    is(&stage.run("txn abort job-0-0 --force --json").await?, 1, "refused");
    is(&stage.run(&format!("txn repair {file} --json --timeout 1s")).await?, 1, "pending");
    stage.broker.release_markers();
    is(&stage.run(&format!("txn commit {file} --json")).await?, 0, "already-committed");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_brokers_transactions_are_listed_and_described() -> Outcome {
    let stage = Stage::new(Profile::kafka_4_4(), 3).await?;
    stage.broker.create_topic("t", 3)?;
    let ids: Vec<_> = (0..6).map(|n| format!("a.b-{n}")).collect();
    let mut open = Vec::new();
    for id in &ids {
        open.push(stage.open("t", id, &["x"]).await?);
    }
    let coordinators: std::collections::BTreeSet<_> =
        ids.iter().map(|id| stage.broker.transaction_coordinator(id)).collect();
    assert!(coordinators.len() > 1, "the ids are spread");
    stage.open("t", "axb-0", &["x"]).await?.commit().await?;
    let listed = |ran: &Ran| -> Vec<String> {
        json_lines(&ran.out).iter().map(|l| l["transactional_id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(listed(&stage.run("txn list --prefix a.b --json").await?), ids);
    assert_eq!(listed(&stage.run("txn list --open --json").await?), ids);
    assert_eq!(stage.run("txn list").await?.out.lines().count(), 8);

    let described = only(&stage.run("txn describe a.b-0 --json").await?);
    assert_eq!(
        (&described["state"], &described["partitions"][0]["open_since"]),
        (&"Ongoing".into(), &0.into())
    );
    assert!(stage.run("txn describe a.b-0").await?.out.contains("open since offset 0"));
    assert_eq!(stage.run("txn describe nobody").await?.code, Some(1));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_committable_of_another_cluster_or_a_broken_file_is_refused() -> Outcome {
    let stage = Stage::new(Profile::kafka_4_4(), 1).await?;
    let other = Stage::new(Profile::kafka_4_4(), 1).await?;
    for s in [&stage, &other] {
        s.broker.create_topic("t", 1)?;
    }
    let (_, file) = stage.prepared("t", "job-0-0", &["one"]).await?;
    is(&other.run(&format!("txn commit {file} --json --timeout 5s")).await?, 1, "denied");
    let torn = stage.path("torn.committable");
    std::fs::write(&torn, &std::fs::read(&file)?[..20])?;
    let ran = stage.run(&format!("txn commit {}", torn.display())).await?;
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""));
    assert!(ran.err.contains("torn"), "{ran:?}");
    // What looks like a file is one, also when it is not there.
    for missing in ["/no/such/file", "missing.committable", "./missing"] {
        let ran = stage.run(&format!("txn describe {missing}")).await?;
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert!(ran.err.contains(missing) && ran.err.contains("No such file"), "{ran:?}");
        let ran = stage.run(&format!("txn describe {missing} --id")).await?;
        assert!(ran.err.contains("its coordinator does not know it"), "{ran:?}");
    }
    for words in [format!("txn abort {file} --force"), "txn abort missing.committable --force".to_owned()] {
        let ran = stage.run(&words).await?;
        assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{ran:?}");
    }
    // Without a cluster the file is still shown.
    let ran = crate::program::program(vec!["txn".into(), "describe".into(), file, "--json".into()]).await?;
    assert_eq!((ran.code, only(&ran)["records"].as_u64()), (Some(0), Some(1)));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_jobs_state_is_committed_unless_it_is_held_or_incomplete() -> Outcome {
    let stage = Stage::new(Profile::kafka_4_4(), 1).await?;
    stage.broker.create_topic("t", 1)?;
    let input = stage.path("input");
    std::fs::write(&input, "one\ntwo\n")?;
    let (input, durable) = (input.display(), stage.path("durable"));
    let durable = durable.display();
    let pipe = format!("pipe --topic t --input {input} --checkpoint-interval 100ms --state");
    let ran = stage.run(&format!("{pipe} {durable} --stop-after durable")).await?;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let file = ran.out.trim().to_owned();
    is(&stage.run(&format!("txn commit --state {durable} --json")).await?, 0, "committed");
    assert_eq!(read(&stage).await?, ["one", "two"]);
    assert!(std::fs::metadata(&file).is_ok());
    is(&stage.run(&format!("txn commit {file} --json")).await?, 0, "already-committed");
    is(&stage.run(&format!("txn repair --state {durable} --json")).await?, 0, "settled");

    let prepared = stage.path("prepared");
    let prepared = prepared.display();
    let ran = stage.run(&format!("{pipe} {prepared} --stop-after prepare")).await?;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let file = ran.out.trim().to_owned();
    for given in [file.clone(), format!("--state {prepared}")] {
        is(&stage.run(&format!("txn commit {given} --json")).await?, 1, "denied");
    }
    is(&stage.run(&format!("txn commit {file} --force --json")).await?, 0, "committed");

    let held = kafka_2pc::checkpoint::DirectoryStore::open(stage.path("durable"), Default::default())?;
    let ran = stage.run(&format!("txn commit --state {durable}")).await?;
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.err.contains("in use by another process"), "{ran:?}");
    drop(held);
    assert_eq!(stage.run("txn commit --state /nowhere/at/all").await?.code, Some(1));
    Ok(())
}

/// A prepared transaction that no checkpoint lists is aborted by hand while its partition has no leader. Its marker is lost,
/// and whoever commits next under the same producer id would publish its records.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leftover_whose_abort_was_lost_is_told_and_never_seen() -> Outcome {
    for profile in PROFILES {
        let Lonely { stage, node, id } = lonely(profile()).await?;
        let input = stage.path("input");
        std::fs::write(&input, "{\"value\":\"one\",\"partition\":0}\n{\"value\":\"two\",\"partition\":0}\n")?;
        let prefix = id.strip_prefix("job-0-").map(|n| format!("job{n}")).ok_or("prefix")?;
        let (input, state) = (input.display(), stage.path("state"));
        let pipe = format!(
            "pipe --topic t --input {input} --format json --json --transactional-id-prefix {prefix} --state {}",
            state.display()
        );
        let crashed = stage.run_to(&pipe, Some("prepared")).await?;
        assert_eq!(crashed.code, None, "{crashed:?}");
        stage.broker.stop_node(node).await?;
        is(&stage.run(&format!("txn abort {prefix}-0-0 --force --json --timeout 3s")).await?, 1, "hanging");
        stage.broker.start_node(node).await?;
        let ran = stage.run(&pipe).await?;
        assert_eq!((ran.code, only(&ran)["hanging"].as_u64()), (Some(1), Some(1)), "{ran:?}");
        assert!(ran.err.contains(&format!("{prefix}-0-0")), "{ran:?}");
        assert!(read(&stage).await?.is_empty(), "readers stall");
        let ran = stage.run(&format!("txn repair --state {} --json", state.display())).await?;
        is(&ran, 0, "repaired");
        assert_eq!(read(&stage).await?, ["one", "two"]);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_committable_says_the_same_to_the_library() -> Outcome {
    let stage = Stage::new(Profile::kafka_4_4(), 1).await?;
    stage.broker.create_topic("t", 1)?;
    let (committable, file) = stage.prepared("t", "job-0-0", &["one"]).await?;
    assert_eq!(Committable::from_bytes(&std::fs::read(file)?)?, committable);
    let client = Client::new(ClientConfig::new(&stage.broker.bootstrap())?);
    let examined = client.examine(&committable).await;
    assert!(examined.proven(&committable).is_err());
    Ok(())
}

/// The bytes that Flink's Kafka sink keeps of this transaction.
fn flink_bytes(committable: &Committable) -> Vec<u8> {
    let (id, identity) = (committable.transactional_id.as_str(), committable.identity);
    let length = u16::try_from(id.len()).unwrap_or(u16::MAX);
    let head = [&identity.epoch.0.to_be_bytes()[..], &identity.producer_id.0.to_be_bytes()];
    [head.concat(), length.to_be_bytes().to_vec(), id.as_bytes().to_vec()].concat()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_flink_prepared_is_committed_and_no_more_is_claimed_than_its_bytes_prove() -> Outcome {
    for profile in PROFILES {
        let stage = Stage::new(profile(), 1).await?;
        stage.broker.create_topic("t", 1)?;
        let (committable, _) = stage.prepared("t", "orders-0-7", &["one", "two"]).await?;
        let file = stage.path("flink");
        std::fs::write(&file, flink_bytes(&committable))?;
        let file = file.display();
        let ran = stage.run(&format!("txn describe {file} --flink --json")).await?;
        let told = &json_lines(&ran.out)[0];
        assert_eq!((ran.code, told["transactional_id"].as_str()), (Some(0), Some("orders-0-7")), "{ran:?}");
        assert_eq!(told["cluster"]["coordinator"]["state"], "Ongoing", "{ran:?}");
        assert!(told["start_ms"].is_null() && told["records"] == 0, "{ran:?}");

        let ran = stage.run(&format!("txn commit --flink {file} --json")).await?;
        is(&ran, 0, "committed");
        assert!(!only(&ran)["evidence"].to_string().contains("not known"), "{ran:?}");
        assert_eq!(read(&stage).await?, ["one", "two"]);
        // On V1 the coordinator still shows the very pair. On V2 it has moved on, and so may others have moved it.
        let ran = stage.run(&format!("txn commit --flink {file} --json")).await?;
        match told["cluster"]["coordinator"]["epoch"] == epoch(&stage, "orders-0-7").await? {
            true => is(&ran, 0, "already-committed"),
            false => {
                is(&ran, 4, "undecidable");
                assert!(ran.out.contains("names no partition"), "{ran:?}");
            }
        }
    }
    Ok(())
}

async fn epoch(stage: &Stage, id: &str) -> Result<serde_json::Value, Box<dyn std::error::Error>> {
    let ran = stage.run(&format!("txn describe {id} --json")).await?;
    Ok(json_lines(&ran.out)[0]["epoch"].clone())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_not_flinks_is_refused_by_what_is_wrong_with_it() -> Outcome {
    let stage = Stage::new(Profile::kafka_4_4(), 1).await?;
    stage.broker.create_topic("t", 1)?;
    let (committable, ours) = stage.prepared("t", "job-0-0", &["one"]).await?;
    let good = flink_bytes(&committable);
    let long = [&good[..], b"x"].concat();
    let file = stage.path("flink");
    for (bytes, why) in
        [(&good[..15], "torn: 15 bytes of 19"), (&long[..], "bytes follow"), (&[][..], "torn")]
    {
        std::fs::write(&file, bytes)?;
        for command in ["commit", "describe"] {
            let ran = stage.run(&format!("txn {command} --flink {}", file.display())).await?;
            assert!(ran.code == Some(1) && ran.err.contains(why), "{ran:?}");
        }
    }
    let ran = stage.run(&format!("txn commit --flink {ours}")).await?;
    assert!(ran.code == Some(1) && ran.err.contains("this is not a Flink committable"), "{ran:?}");
    std::fs::write(&file, &good)?;
    let ran = stage.run(&format!("txn commit {}", file.display())).await?;
    assert!(ran.code == Some(1) && ran.err.contains("not a committable"), "{ran:?}");
    let state = stage.path("nothing");
    let ran = stage.run(&format!("txn commit --flink --state {}", state.display())).await?;
    assert_eq!(ran.code, Some(2), "{ran:?}");
    let ran = stage.run("txn describe --flink job-0-0").await?;
    assert_eq!(ran.code, Some(2), "{ran:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leftovers_are_those_of_exactly_one_prefix() -> Outcome {
    for profile in PROFILES {
        let stage = Stage::new(profile(), 1).await?;
        stage.broker.create_topic("t", 2)?;
        let (input, state) = (stage.path("input"), stage.path("state"));
        std::fs::write(&input, "one\n")?;
        let (input, state) = (input.display(), state.display());
        let pipe = format!("pipe --topic t --input {input} --transactional-id-prefix job --state {state}");
        let ran = stage.run(&format!("{pipe} --stop-after durable")).await?;
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let file = ran.out.trim().to_owned();
        let mut open = Vec::new();
        for id in ["job-0-3", "job-a-0-0", "job-0", "jobs-0-0", "job-0-00"] {
            open.push(stage.open("t", id, &["x", "y"]).await?);
        }
        stage.open("t", "job-0-1", &["over"]).await?.commit().await?;
        let leftovers = format!("txn leftovers --prefix job --state {state}");
        let ran = stage.run(&format!("{leftovers} --json")).await?;
        let lines = json_lines(&ran.out);
        let ids: Vec<_> = lines.iter().map(|l| l["transactional_id"].as_str()).collect();
        assert_eq!((ran.code, ids), (Some(0), vec![Some("job-0-0"), Some("job-0-3")]), "{ran:?}");
        assert_eq!((&lines[0]["named_by"], &lines[1]["named_by"]), (&file.as_str().into(), &().into()));
        assert_eq!((&lines[1]["state"], &lines[1]["end"]), (&"Ongoing".into(), &"open".into()));
        assert_eq!(lines[1]["partitions"].as_array().map(Vec::len), Some(2));
        assert!(lines[1]["age_ms"].is_i64(), "{ran:?}");
        let table = stage.run(&leftovers).await?.out;
        assert!(table.lines().count() == 3 && table.contains(&file), "{table}");

        // Without a state nobody knows what is prepared.
        let ran = stage.run("txn leftovers --prefix job --abort --json").await?;
        let refused = |l: &serde_json::Value| l["outcome"] == "refused";
        assert!(ran.code == Some(1) && json_lines(&ran.out).iter().all(refused), "{ran:?}");
        let ran = stage.run(&format!("{leftovers} --abort --json")).await?;
        let outcomes: Vec<_> = json_lines(&ran.out).iter().map(|l| l["outcome"].to_string()).collect();
        assert_eq!((ran.code, outcomes), (Some(1), vec!["\"refused\"".into(), "\"aborted\"".into()]));
        assert!(open.remove(0).commit().await.is_err(), "it was fenced");
        for other in open {
            other.commit().await?;
        }
        is(&stage.run(&format!("txn commit {file} --json")).await?, 0, "committed");
        let ran = stage.run(&leftovers).await?;
        assert!(ran.code == Some(0) && ran.err.contains("nothing is open under job-"), "{ran:?}");
        assert_eq!(stage.run("txn leftovers --prefix job --abort --force").await?.code, Some(0));
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leftover_that_hangs_is_listed_and_not_aborted() -> Outcome {
    for profile in PROFILES {
        let Lonely { stage, node, id } = lonely(profile()).await?;
        let (_, file) = stage.prepared("t", &id, &["one", "two"]).await?;
        stage.broker.stop_node(node).await?;
        let ran = stage.run(&format!("txn commit {file} --no-wait-for-leader --json --timeout 3s")).await?;
        is(&ran, 1, "hanging");
        stage.broker.start_node(node).await?;
        let found = only(&stage.run("txn leftovers --prefix job --json").await?);
        assert_eq!(
            (found["end"].as_str(), found["state"].as_str()),
            (Some("hanging"), Some("CompleteCommit"))
        );
        assert_eq!(found["partitions"], serde_json::json!([{"topic": "t", "partition": 0}]));
        is(&stage.run("txn leftovers --prefix job --abort --force --json").await?, 1, "refused");
        is(&stage.run(&format!("txn repair {file} --json")).await?, 0, "repaired");
        assert_eq!(stage.run("txn leftovers --prefix job --json").await?.out, "");
    }
    Ok(())
}
