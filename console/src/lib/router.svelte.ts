// The place in the console, as the part of the address after `#`. So the server knows one page only.

export interface Route {
  /** The name of the page, such as `thread`, `new`, `memory` or `admin`. */
  name: string;
  /** The parts after the name, decoded. */
  rest: string[];
  query: URLSearchParams;
}

function parse(hash: string): Route {
  const [path = '', query = ''] = hash.replace(/^#\/?/, '').split('?');
  const parts = path.split('/').filter(Boolean).map(decode);
  return { name: parts[0] ?? 'home', rest: parts.slice(1), query: new URLSearchParams(query) };
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export function link(name: string, ...rest: string[]): string {
  return `#/${[name, ...rest].map(encodeURIComponent).join('/')}`;
}

class Router {
  current = $state.raw<Route>(parse(location.hash));

  constructor() {
    addEventListener('hashchange', () => (this.current = parse(location.hash)));
  }

  go(address: string, replace = false): void {
    if (replace) {
      history.replaceState(null, '', address);
      this.current = parse(address);
    } else location.hash = address.replace(/^#/, '');
  }
}

export const router = new Router();
