// The state of the page that belongs to no data: theme, panels, messages to the reader.

import { ApiError } from './api.ts';
import { sentence } from './format.ts';

export type Theme = 'auto' | 'light' | 'dark';
export interface Toast {
  id: number;
  text: string;
  kind: 'plain' | 'error';
  action?: { label: string; act: () => void };
}
export interface InspectorTarget {
  runId: string;
  appId: string;
  threadId: string;
  tab: 'run' | 'prompt' | 'memory' | 'actions';
  /** The memories that are known to be in the prompt. */
  memories?: string[];
}

function stored(name: string): string | null {
  try {
    return localStorage.getItem(`rondo.${name}`);
  } catch {
    return null;
  }
}

export function store(name: string, value: string | null): void {
  try {
    if (value === null) localStorage.removeItem(`rondo.${name}`);
    else localStorage.setItem(`rondo.${name}`, value);
  } catch {
    // A page without storage forgets, and works.
  }
}

/** Milliseconds. */
const TOAST_LIFE_MS = 6_000;
/** Where the rail is a drawer. */
const NARROW = '(max-width: 860px)';

class Ui {
  theme = $state<Theme>((stored('theme') as Theme | null) ?? 'auto');
  railOpen = $state(stored('rail') !== 'closed');
  drawerOpen = $state(false);
  inspector = $state.raw<InspectorTarget | null>(null);
  palette = $state(false);
  shortcuts = $state(false);
  toasts = $state<Toast[]>([]);
  /** Told to screen readers, once per sentence. */
  announcement = $state('');
  now = $state(Date.now());
  /** The app, model and persona that are to answer the message box, as the palette chose them. */
  choice = $state.raw<{ app: string; model?: string | null; persona?: string | null } | null>(null);
  /** The app that was used last. */
  lastApp = $state(stored('app'));
  #toastId = 0;

  constructor() {
    this.applyTheme();
    matchMedia(NARROW).addEventListener('change', ({ matches }) => matches || (this.drawerOpen = false));
    setInterval(() => (this.now = Date.now()), 1_000);
  }

  setTheme(theme: Theme): void {
    this.theme = theme;
    store('theme', theme === 'auto' ? null : theme);
    this.applyTheme();
  }

  applyTheme(): void {
    if (this.theme === 'auto') delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = this.theme;
  }

  toggleRail(): void {
    if (matchMedia(NARROW).matches) this.drawerOpen = !this.drawerOpen;
    else {
      this.railOpen = !this.railOpen;
      store('rail', this.railOpen ? null : 'closed');
    }
  }

  useApp(app: string): void {
    this.lastApp = app;
    store('app', app);
  }

  say(text: string): void {
    this.announcement = text;
  }

  toast(text: string, action?: Toast['action'], kind: Toast['kind'] = 'plain'): number {
    const id = ++this.#toastId;
    this.toasts = [...this.toasts.slice(-3), { id, text, kind, action }];
    setTimeout(() => this.dismiss(id), TOAST_LIFE_MS);
    return id;
  }

  dismiss(id: number): void {
    this.toasts = this.toasts.filter((toast) => toast.id !== id);
  }

  fail(error: unknown): void {
    if (error instanceof DOMException && error.name === 'AbortError') return;
    const text = error instanceof ApiError ? error.message : error instanceof Error ? error.message : String(error);
    this.toast(sentence(text), undefined, 'error');
  }
}

export const ui = new Ui();
