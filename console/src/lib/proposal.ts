// The effect of a proposed call, in a sentence and as fields.

import { get } from './api.ts';
import { brief, words } from './format.ts';
import { session } from './session.svelte.ts';
import { strings } from '../strings.ts';
import type { RecordView } from './types.ts';

export interface Meaning {
  sentence: string;
  before: Record<string, unknown> | null;
  after: Record<string, unknown>;
}

/** The field that names a record for people. */
const NAMES = ['name', 'title', 'label', 'subject', 'summary'];

function nameOf(data: Record<string, unknown>): string {
  for (const field of NAMES) if (typeof data[field] === 'string') return brief(data[field], 60);
  const first = Object.values(data).find((value) => typeof value === 'string');
  return typeof first === 'string' ? brief(first, 40) : '';
}

function asObject(input: unknown): Record<string, unknown> {
  return input !== null && typeof input === 'object' && !Array.isArray(input) ? (input as Record<string, unknown>) : { value: input };
}

/** The facts that are known without asking the server. */
export function plainMeaning(tool: string, input: unknown): Meaning {
  return { sentence: strings.approval.run(words(tool)), before: null, after: asObject(input) };
}

/** With the record that the call would change, if it changes one. */
export async function meaning(app: string, tool: string, input: unknown): Promise<Meaning> {
  const plain = plainMeaning(tool, input);
  const types = await session.recordTypes(app).catch(() => []);
  const type = types.find((each) => each.tools.some(({ name }) => name === tool));
  const does = type?.tools.find(({ name }) => name === tool)?.does;
  if (!type || !does) return plain;
  const { id, ...fields } = plain.after;
  const kind = words(type.type).toLowerCase();
  if (does === 'create') return { ...plain, sentence: strings.approval.add(kind, nameOf(plain.after)) };
  if (typeof id !== 'string' || !/^rec_[0-9a-f]{32}$/.test(id)) return plain;
  const record = await get<RecordView>(`v1/apps/${app}/records/${type.type}/${id}`).catch(() => null);
  if (!record) return plain;
  const name = nameOf(record.data) || kind;
  if (does === 'delete') return { sentence: strings.approval.deleteOne(kind, name), before: record.data, after: {} };
  const changed = Object.keys(fields).filter((field) => JSON.stringify(fields[field]) !== JSON.stringify(record.data[field]));
  const before = Object.fromEntries(Object.keys(fields).map((field) => [field, record.data[field]]));
  const [field] = changed;
  let sentence = strings.approval.changeMany(changed.length, name);
  if (changed.length === 1 && field) {
    const [old, fresh] = [brief(record.data[field], 40), brief(fields[field], 40)];
    const label = words(field).toLowerCase();
    sentence = old ? strings.approval.changeOne(label, name, old, fresh) : strings.approval.setOne(label, name, fresh);
  }
  return { sentence, before, after: fields };
}
