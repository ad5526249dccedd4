// Numbers, times and names in the words of the reader.

const whole = new Intl.NumberFormat();
const compactForm = new Intl.NumberFormat(undefined, { notation: 'compact', maximumFractionDigits: 1 });

export const number = (value: number): string => whole.format(value);
export const compact = (value: number): string => compactForm.format(value);

export function bytes(count: number): string {
  if (count < 1024) return `${count} B`;
  const units = ['KB', 'MB', 'GB'];
  let value = count / 1024;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${value < 10 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}

export function duration(milliseconds: number): string {
  if (milliseconds < 1) return '<1 ms';
  if (milliseconds < 1000) return `${Math.round(milliseconds)} ms`;
  const seconds = milliseconds / 1000;
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  const whole = Math.round(seconds);
  const minutes = Math.floor(whole / 60);
  if (minutes < 60) return `${minutes} min ${whole % 60} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** Small costs keep two digits that say something. */
export function cost(usd: number): string {
  if (usd === 0) return '$0';
  if (usd >= 1) return `$${usd.toFixed(2)}`;
  const digits = Math.min(6, 1 - Math.floor(Math.log10(usd)));
  return `$${usd.toFixed(Math.max(2, digits))}`;
}

export function time(value: string): string {
  return new Date(value).toLocaleTimeString(undefined, { hour: '2-digit', minute: '2-digit' });
}

export function dateTime(value: string): string {
  return new Date(value).toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'short' });
}

export function ago(value: string, now: number = Date.now()): string {
  const seconds = Math.round((now - Date.parse(value)) / 1000);
  if (seconds < 45) return 'now';
  if (seconds < 3600) return `${Math.max(1, Math.round(seconds / 60))} min ago`;
  if (seconds < 86_400) return `${Math.round(seconds / 3600)} h ago`;
  if (seconds < 7 * 86_400) return `${Math.round(seconds / 86_400)} d ago`;
  return new Date(value).toLocaleDateString(undefined, { day: 'numeric', month: 'short', year: sameYear(value, now) ? undefined : 'numeric' });
}

function sameYear(value: string, now: number): boolean {
  return new Date(value).getFullYear() === new Date(now).getFullYear();
}

export function until(value: string, now: number): string {
  const left = Date.parse(value) - now;
  return left <= 0 ? 'expired' : duration(left < 60_000 ? Math.ceil(left / 1000) * 1000 : Math.ceil(left / 60_000) * 60_000).replace(' 0 s', '').replace(' 0 min', '');
}

/** `updateMedication`, `save_memory` and `github__list-issues` as words. */
export function words(name: string): string {
  const spaced = name
    .replace(/__/g, ' · ')
    .replace(/([a-z0-9])([A-Z])/g, '$1 $2')
    .replace(/[_-]+/g, ' ')
    .trim();
  const lower = spaced.replace(/\b([A-Z])(?=[a-z])/g, (letter) => letter.toLowerCase());
  return lower.charAt(0).toUpperCase() + lower.slice(1);
}

/** A value in one line of at most `limit` characters. */
export function brief(value: unknown, limit = 80): string {
  if (value === null || value === undefined) return '';
  let text: string;
  if (typeof value === 'string') text = value;
  else if (typeof value !== 'object') text = String(value);
  else if (Array.isArray(value)) text = value.slice(0, 8).map((item) => brief(item, 24)).join(', ');
  else {
    text = Object.entries(value)
      .slice(0, 6)
      .map(([name, item]) => `${name}: ${brief(item, 32)}`)
      .join(', ');
  }
  text = text.slice(0, limit * 4).replace(/\s+/g, ' ');
  return text.length > limit ? `${text.slice(0, limit - 1)}…` : text;
}

/** The server's messages begin with a small letter, as parts of a sentence do. */
export function sentence(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
