// The effect of a tool call on the world, as an icon and a word. It claims nothing that the server does not know.

import { strings } from '../strings.ts';

export interface ShownEffect {
  icon: string;
  hint?: string;
}

const ICONS: Record<string, string> = { read: 'eye', idempotent: 'undo', reversible: 'undo', irreversible: 'bolt' };
const NOT_MADE = ['denied', 'cancelled'];

/**
 * `started` is the effect that the beginning of the call told. Without a beginning, the ledger's entry says `read`, also
 * for a tool that writes: nothing was changed.
 */
export function shownEffect(status: string, started: string | undefined, entered: string | undefined): ShownEffect {
  if (!started && NOT_MADE.includes(status)) return { icon: 'ban', hint: strings.tool.refused };
  const effect = started || (status === 'failed' && entered === 'read' ? undefined : entered);
  if (!effect) return { icon: 'terminal' };
  return { icon: ICONS[effect] ?? 'terminal', hint: (strings.tool as unknown as Record<string, string>)[effect] };
}
