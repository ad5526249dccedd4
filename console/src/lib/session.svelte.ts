// The session: who uses the console, and what the server offers them.

import { ApiError, get, type Page, send, whenSignedOut } from './api.ts';
import { hub } from './hub.ts';
import type { AccessView, AppView, ModelView, PersonaView, RecordTypeView } from './types.ts';

class Session {
  /** `loading`, `signed-out`, `ready`, or `failed` with a reason. */
  state = $state<'loading' | 'signed-out' | 'ready' | 'failed'>('loading');
  problem = $state('');
  access = $state.raw<AccessView | null>(null);
  apps = $state.raw<AppView[]>([]);
  models = $state.raw<ModelView[]>([]);
  readonly #personas = new Map<string, Promise<PersonaView[]>>();
  readonly #recordTypes = new Map<string, Promise<RecordTypeView[]>>();

  get isAdmin(): boolean {
    return this.access?.rights.includes('admin') ?? false;
  }

  /** Whether messages, decisions and changes are allowed. */
  get canRun(): boolean {
    return this.access?.rights.includes('run') ?? false;
  }

  app(id: string): AppView | undefined {
    return this.apps.find((app) => app.id === id);
  }

  /** The app that was used last, if it is still there, or the first one. */
  usualApp(last: string | null): string {
    return this.app(last ?? '')?.id ?? this.apps[0]?.id ?? '';
  }

  async start(): Promise<void> {
    whenSignedOut(() => (this.state = 'signed-out'));
    try {
      this.access = await get<AccessView>('v1/session');
      const [apps, models] = await Promise.all([get<Page<AppView>>('v1/apps'), get<Page<ModelView>>('v1/models')]);
      this.apps = apps.data;
      this.models = models.data;
      this.state = 'ready';
      hub.start(() => location.reload());
    } catch (error) {
      if (error instanceof ApiError && (error.status === 401 || error.status === 403)) {
        this.state = 'signed-out';
        this.problem = error.status === 403 ? error.message : '';
      } else {
        this.state = 'failed';
        this.problem = error instanceof Error ? error.message : String(error);
      }
    }
  }

  /** Exchanges a key or a JWT for a cookie that no script can read. The key is not kept. */
  async signIn(key: string): Promise<void> {
    await send('POST', 'v1/session', { headers: { authorization: `Bearer ${key.trim()}` } });
    location.reload();
  }

  async signOut(): Promise<void> {
    await send('DELETE', 'v1/session');
    hub.tellSignedOut();
    location.reload();
  }

  async refresh(): Promise<void> {
    const [apps, models] = await Promise.all([get<Page<AppView>>('v1/apps'), get<Page<ModelView>>('v1/models')]);
    this.apps = apps.data;
    this.models = models.data;
  }

  personas(app: string): Promise<PersonaView[]> {
    let asked = this.#personas.get(app);
    if (!asked) {
      asked = get<Page<PersonaView>>(`v1/apps/${app}/personas`).then((page) => page.data);
      asked.catch(() => this.#personas.delete(app));
      this.#personas.set(app, asked);
    }
    return asked;
  }

  forgetPersonas(app: string): void {
    this.#personas.delete(app);
  }

  recordTypes(app: string): Promise<RecordTypeView[]> {
    let asked = this.#recordTypes.get(app);
    if (!asked) {
      asked = get<Page<RecordTypeView>>(`v1/apps/${app}/records`).then((page) => page.data);
      asked.catch(() => this.#recordTypes.delete(app));
      this.#recordTypes.set(app, asked);
    }
    return asked;
  }

  /** The models that a request to the app may name. */
  modelsOf(app: AppView): string[] {
    const known = this.models.map((model) => model.id);
    if (app.models.includes('*')) return known;
    return [...new Set([...(app.model ? [app.model] : []), ...app.models])];
  }

  model(id: string | null | undefined): ModelView | undefined {
    return this.models.find((model) => model.id === id);
  }
}

export const session = new Session();
