//! The sections of the eldercare app for its sample, for several people, and for any records at all.

use std::path::Path;

use jiff::Zoned;
use proptest::prelude::*;
use serde_json::json;

use super::{NOW, ZONE, hostile};
use crate::section::*;

/// The records of a folder by type, with dates told from this time.
fn sample(app: &crate::App, folder: &Path, now: &Zoned) -> BTreeMap<String, Vec<Value>> {
    let mut records: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for file in folder.read_dir().unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        let Value::Array(sample) = serde_json::from_str(&text).unwrap() else { panic!("{text}") };
        for mut record in sample {
            let kind = record["type"].as_str().unwrap().to_owned();
            let schema = &app.records[&kind].schema;
            crate::relative_dates::resolve(schema, &mut record["data"], now).unwrap();
            assert!(jsonschema::is_valid(schema, &record["data"]), "{record}");
            record["data"]["id"] = record["id"].clone();
            records.entry(kind).or_default().push(record["data"].clone());
        }
    }
    records
}

/// The sections of the app `kalito` that have something to say, over the records of its sample or these.
fn kalito(now: &str, own: Option<Vec<(&str, Value)>>) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../apps/kalito");
    let app = crate::load(&folder).unwrap();
    let zone = TimeZone::get(ZONE).unwrap();
    let now: Timestamp = now.parse().unwrap();
    let mut records = BTreeMap::new();
    match own {
        None => records = sample(&app, &folder.join("sample"), &now.to_zoned(zone.clone())),
        Some(own) => {
            for (kind, data) in own {
                records.entry(kind.to_owned()).or_insert_with(Vec::new).push(data);
            }
        }
    }
    let data = SectionData { records: &records, now, zone: &zone, targets: &app.targets };
    let section = |name: &str| app.sections.iter().find(|section| section.name == name).unwrap();
    let names = ["patient", "medications", "doses", "vitals", "appointments"];
    let texts = names.map(|name| section(name).render(&data).unwrap());
    texts.iter().filter(|text| !text.is_empty()).map(SectionText::full_text).collect::<Vec<_>>().join("\n\n")
}

#[test]
fn the_eldercare_app_tells_what_is_on_record() {
    let expected = "\
Patient Information:
- Name: Mary Smith
- Age: 82
- Allergies: Penicillin (hives), Ibuprofen (stomach bleed)
- Conditions: Hypertension, Type 2 Diabetes
- Primary Caregiver: John Smith (Grandson)
- Doctor: Dr. Patel, Elm Street Practice, 555-0133
- Mobility: Walks indoors with a walker; needs an arm on stairs. Two falls in the last year.
- Cognition: Mild memory loss, worse in the evening. Wears a hearing aid on the left; speak slowly and face her.
- Directives: Wants to be taken to hospital. The living will is in the blue folder in the kitchen.
- Notes: Likes tea at four, and Ruth's visits on Wednesdays.

Current Medications:
- Lisinopril 10mg - Once daily at 8am (for hypertension)
  Last given: Oct 31, 2024 at 8:10 AM EDT (10mg), by John Smith
- Metformin 500mg - Twice daily with meals (for diabetes)
  Side effects to monitor: Nausea, diarrhea
  Last given: Oct 31, 2024 at 8:10 AM EDT (500mg), by John Smith
- Acetaminophen 500mg - 1 tablet when the knee hurts (for knee pain) [only when needed]
  Never more than: 3000mg in 24 hours, at least 6 hours apart
  Last given: Oct 31, 2024 at 10:00 PM EDT (500mg), by John Smith; doses in the last 24 hours: 1
  Instructions: Look on the labels of cold medicines: many hold it too.

Doses (Last 48 hours):
- Oct 31, 2024 at 10:00 PM EDT: Acetaminophen 500mg, by John Smith
- Oct 31, 2024 at 6:30 PM EDT: Metformin 500mg - refused, by John Smith
  Notes: She felt sick and ate little.
- Oct 31, 2024 at 8:10 AM EDT: Metformin 500mg, by John Smith
- Oct 31, 2024 at 8:10 AM EDT: Lisinopril 10mg, by John Smith
- Oct 30, 2024 at 8:05 AM EDT: Lisinopril 10mg, by Ana Torres

Recent Vitals (Last 7 days):
- Weight: 145-148 lbs (stable), last 147 on Oct 31
- Blood Glucose: AM 95-110, PM 120-135 mg/dL (well controlled, stable; target AM 80-130, PM 80-180), last 126 on Oct 31
- Blood Pressure: AM 132-134/76-78 mmHg (well controlled; target AM 110-140/60-90), last 132/76 on Oct 31

Upcoming Appointments:
- Dr. Johnson (Cardiologist) - Nov 5, 2024 at 10:00 AM EST, Heart Center, 2nd floor";
    assert_eq!(kalito("2024-11-01T11:00:00Z", None), expected);
}

/// Records of two people, and some that belong to no person.
fn two_people() -> Vec<(&'static str, Value)> {
    let vital = |patient: &str, kind: &str, value: f64, unit: &str, at: &str| {
        ("vital", json!({"type": kind, "value": value, "unit": unit, "measuredAt": at, "patient": patient}))
    };
    let mut more = vec![
        ("patient", json!({"id": "m", "name": "Mary Smith"})),
        ("patient", json!({"id": "g", "name": "George Smith", "allergies": ["Penicillin"]})),
        ("medication", json!({"id": "l", "name": "Lisinopril", "status": "active", "patient": "m"})),
        (
            "medication",
            json!({"id": "w", "name": "Warfarin", "status": "paused", "patient": "g", "specialCare": "blood thinner"}),
        ),
        ("medication", json!({"id": "n", "name": "Nystatin", "status": "active", "patient": "Mrs. Lee"})),
        ("medication", json!({"id": "d", "name": "Docusate", "status": "active"})),
        (
            "medication",
            json!({"id": "o", "name": "Over", "status": "active", "patient": "m", "endsOn": "2025-01-05"}),
        ),
        (
            "medication",
            json!({"id": "s", "name": "Soon", "status": "active", "patient": "m", "startedOn": "2025-01-07"}),
        ),
        (
            "goal",
            json!({"type": "blood_glucose", "unit": "mg/dL", "context": "AM", "low": 90, "high": 105, "patient": "m"}),
        ),
        vital("m", "weight", 146.0, "lbs", "2025-01-04T08:00:00Z"),
        vital("m", "weight", 66.2, "kg", "2025-01-05T08:00:00Z"),
        vital("g", "weight", 80.5, "kg", "2025-01-05T08:00:00Z"),
        vital("g", "oxygen_saturation", 90.0, "%", "2025-01-05T08:00:00Z"),
        (
            "appointment",
            json!({"provider": "Dr. Wu", "startsAt": "2025-02-01T09:00:00", "status": "cancelled"}),
        ),
    ];
    let mut pressure = vital("m", "blood_pressure", 150.0, "mmHg", "2025-01-05T08:00:00Z");
    pressure.1["diastolic"] = json!(78);
    more.push(pressure);
    for (day, morning, evening) in [(3, 100, 140), (4, 110, 141), (5, 120, 139)] {
        for (context, value) in [("AM", morning), ("PM", evening)] {
            let at = format!("2025-01-0{day}T08:00:00Z");
            let mut reading = vital("m", "blood_glucose", f64::from(value), "mg/dL", &at);
            reading.1["context"] = json!(context);
            more.push(reading);
        }
    }
    more
}

#[test]
fn the_eldercare_app_throws_nothing_together() {
    let expected = "\
Patient Information:
- Name: Mary Smith
- Allergies: not on record

- Name: George Smith
- Allergies: Penicillin

Current Medications:
- George Smith: Warfarin [paused]
  Special care: blood thinner
- Mary Smith: Lisinopril
- Mrs. Lee: Nystatin
- For whom is not on record: Docusate

Doses (Last 48 hours):
- None is on record. That says only that none was recorded.

Recent Vitals (Last 7 days):
- Mary Smith, Weight: 146 lbs
- Mary Smith, Weight: 66.2 kg
- Mary Smith, Blood Glucose: AM 100-120 (2 of 3 above target, rising), PM 139-141 (well controlled, stable) mg/dL; target AM 90-105, PM 80-180, last 139 on Jan 5
- Mary Smith, Blood Pressure: 150/78 mmHg (upper number 1 of 1 above target; target 110-140/60-90)

- George Smith, Weight: 80.5 kg
- George Smith, Oxygen Saturation: 90 % (1 of 1 below target; target at least 92)";
    assert_eq!(kalito("2025-01-06T12:00:00Z", Some(two_people())), expected);
}

#[test]
fn the_eldercare_app_takes_any_record() {
    let app = crate::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../apps/kalito")).unwrap();
    let zone = TimeZone::get(ZONE).unwrap();
    for section in &app.sections {
        let kind = section.records[0].as_str();
        let fields = app.records[kind].properties().map(|(name, _)| name.clone()).collect();
        proptest!(|(list in prop::collection::vec(hostile(fields), 0..5))| {
            let records = BTreeMap::from([(kind.to_owned(), list)]);
            let data = SectionData { records: &records, now: NOW.parse().unwrap(), zone: &zone, targets: &app.targets };
            section.render(&data).map_err(TestCaseError::fail)?;
        });
    }
}
