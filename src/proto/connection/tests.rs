use super::*;

fn open() -> Connection {
    let mut c =
        Connection::new(Limits { in_flight: 2, greeting: Duration::from_secs(10), first_greeting: 3 });
    c.handle(Moment(0), Input::Opened).unwrap();
    assert_eq!(drain(&mut c), [Effect::Greet { version: 3 }]);
    c
}

fn ready() -> Connection {
    let mut c = open();
    c.handle(Moment(0), Input::Greeted(Greeting::Accepted)).unwrap();
    assert_eq!(drain(&mut c), [Effect::Ready]);
    c
}

fn drain(c: &mut Connection) -> Vec<Effect> {
    std::iter::from_fn(|| c.poll_effect()).collect()
}

fn request(ticket: u64) -> Input {
    let correlation = i32::try_from(ticket).unwrap();
    Input::Submitted(Request { ticket, correlation, timeout: Duration::from_secs(30) })
}

#[test]
fn an_unknown_greeting_version_is_asked_again_with_the_brokers_highest() {
    let mut c = open();
    c.handle(Moment(0), Input::Greeted(Greeting::UnknownVersion { highest: Some(2) })).unwrap();
    assert_eq!(drain(&mut c), [Effect::Greet { version: 2 }]);
    c.handle(Moment(0), Input::Greeted(Greeting::UnknownVersion { highest: None })).unwrap();
    assert_eq!(drain(&mut c), [Effect::Greet { version: 0 }]);
    c.handle(Moment(0), Input::Greeted(Greeting::UnknownVersion { highest: Some(4) })).unwrap();
    assert!(matches!(drain(&mut c)[..], [Effect::Close { .. }]), "no version is left");
}

#[test]
fn nothing_is_written_before_the_greeting_is_answered() {
    let mut c = open();
    c.handle(Moment(0), request(1)).unwrap();
    assert_eq!(drain(&mut c), []);
    c.handle(Moment(0), Input::Greeted(Greeting::Accepted)).unwrap();
    assert_eq!(drain(&mut c), [Effect::Ready, Effect::Write { ticket: 1 }]);
}

#[test]
fn the_window_holds_back_what_exceeds_it() {
    let mut c = ready();
    for ticket in 1..=3 {
        c.handle(Moment(0), request(ticket)).unwrap();
    }
    assert_eq!(drain(&mut c), [Effect::Write { ticket: 1 }, Effect::Write { ticket: 2 }]);
    c.handle(Moment(1), Input::Received { correlation: 1 }).unwrap();
    assert_eq!(drain(&mut c), [Effect::Deliver { ticket: 1 }, Effect::Write { ticket: 3 }]);
}

#[test]
fn an_answer_out_of_order_closes_and_fails_all_as_maybe_sent() {
    let mut c = ready();
    for ticket in 1..=3 {
        c.handle(Moment(0), request(ticket)).unwrap();
    }
    drain(&mut c);
    c.handle(Moment(1), Input::Received { correlation: 2 }).unwrap();
    let effects = drain(&mut c);
    assert_eq!(
        effects[..3],
        [
            Effect::Fail { ticket: 1, sent: Sent::Maybe },
            Effect::Fail { ticket: 2, sent: Sent::Maybe },
            Effect::Fail { ticket: 3, sent: Sent::No },
        ]
    );
    assert!(matches!(effects[3], Effect::Close { .. }));
    assert_eq!(c.handle(Moment(1), request(4)), Err(Misuse));
}

#[test]
fn a_late_answer_closes_the_connection() {
    let mut c = ready();
    c.handle(Moment(0), request(1)).unwrap();
    drain(&mut c);
    let deadline = c.next_deadline().unwrap();
    assert_eq!(deadline, Moment(30_000_000));
    c.handle(deadline, Input::Tick).unwrap();
    assert_eq!(drain(&mut c)[0], Effect::Fail { ticket: 1, sent: Sent::Maybe });
}

#[test]
fn an_answer_that_nobody_asked_for_closes_the_connection() {
    let mut c = ready();
    c.handle(Moment(0), Input::Received { correlation: 9 }).unwrap();
    assert!(matches!(drain(&mut c)[..], [Effect::Close { .. }]));
}

#[test]
fn a_throttled_connection_stays_silent_until_the_time_is_over() {
    let mut c = ready();
    c.handle(Moment(0), Input::Throttled { until: Moment(500) }).unwrap();
    c.handle(Moment(0), request(1)).unwrap();
    assert_eq!(drain(&mut c), []);
    assert_eq!(c.next_deadline(), Some(Moment(500)));
    c.handle(Moment(500), Input::Tick).unwrap();
    assert_eq!(drain(&mut c), [Effect::Write { ticket: 1 }]);
}

#[test]
fn a_silent_broker_is_given_up_after_the_setup_time() {
    let mut c = open();
    let deadline = c.next_deadline().unwrap();
    c.handle(deadline, Input::Tick).unwrap();
    assert!(matches!(&drain(&mut c)[..], [Effect::Close { cause }] if cause.contains("ApiVersions")));
}

#[test]
fn no_silence_lasts_for_weeks() {
    let mut c = ready();
    c.handle(Moment(0), Input::Throttled { until: Moment(0).after(Duration::from_secs(2_147_483)) }).unwrap();
    c.handle(Moment(1), request(1)).unwrap();
    assert_eq!(drain(&mut c), []);
    assert_eq!(c.next_deadline(), Some(Moment(0).after(MOST_SILENCE)));
    c.handle(Moment(0).after(MOST_SILENCE), Input::Tick).unwrap();
    assert_eq!(drain(&mut c), [Effect::Write { ticket: 1 }]);
}
