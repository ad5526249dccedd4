// Tabs that do not fit show the one that is open.

/** For the element that holds the tabs. */
export function showsCurrent(element: HTMLElement): () => void {
  const show = (): void => {
    const current = element.querySelector<HTMLElement>('[aria-current]');
    if (current) element.scrollLeft = current.offsetLeft - (element.clientWidth - current.offsetWidth) / 2;
  };
  const observer = new MutationObserver(show);
  observer.observe(element, { subtree: true, childList: true, attributes: true, attributeFilter: ['aria-current'] });
  show();
  return () => observer.disconnect();
}
