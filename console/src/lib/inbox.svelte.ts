// Everything that waits for the user: proposals to approve, and questions of agents.

import { get, type Page } from './api.ts';
import { hub } from './hub.ts';
import { session } from './session.svelte.ts';
import type { ClientCallView, ProposalView } from './types.ts';

/** Milliseconds between two looks, for changes that no notice tells. */
const LOOK_MS = 60_000;

class Inbox {
  proposals = $state.raw<ProposalView[]>([]);
  calls = $state.raw<ClientCallView[]>([]);
  state = $state<'loading' | 'ready' | 'failed'>('loading');
  problem = $state('');
  #planned: ReturnType<typeof setTimeout> | undefined;
  #started = false;

  get count(): number {
    return this.proposals.length + this.calls.length;
  }

  start(): void {
    if (this.#started) return;
    this.#started = true;
    void this.load();
    hub.onNotice(({ type }) => ['notice:proposal', 'notice:call', 'resync'].includes(type) && this.soon());
    setInterval(() => !document.hidden && this.soon(), LOOK_MS);
  }

  soon(): void {
    clearTimeout(this.#planned);
    this.#planned = setTimeout(() => void this.load(), 150);
  }

  async load(): Promise<void> {
    try {
      const apps = session.apps.map((app) => app.id);
      const list = <T>(what: string): Promise<T[]> =>
        Promise.all(apps.map((app) => get<Page<T>>(`v1/apps/${app}/${what}`, { open: true }).then((page) => page.data))).then((all) => all.flat());
      const [proposals, calls] = await Promise.all([list<ProposalView>('proposals'), list<ClientCallView>('calls').catch(() => [])]);
      this.proposals = proposals.sort((a, b) => (a.createdAt < b.createdAt ? 1 : -1));
      this.calls = calls.sort((a, b) => (a.createdAt < b.createdAt ? 1 : -1));
      this.state = 'ready';
    } catch (error) {
      this.state = this.proposals.length ? 'ready' : 'failed';
      this.problem = error instanceof Error ? error.message : String(error);
    }
  }
}

export const inbox = new Inbox();
