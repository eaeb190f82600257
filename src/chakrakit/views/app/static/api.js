// Questions to the server. Every answer is JSON; what the server refuses becomes an Error with its words.
// Edits go with every question about the side that they make.
export const edited = { side: 1, edits: [] };
const withEdits = (given) => (+given.side === edited.side && edited.edits.length ? { ...given, edits: JSON.stringify(edited.edits) } : given);

export async function ask(name, asked = {}) {
  const given = withEdits(asked);
  const response = await fetch(`/api/${name}?${new URLSearchParams(given)}`);
  const answer = await response.json().catch(() => ({ error: `the server failed on ${name}; its terminal says why` }));
  if (!response.ok) throw new Error(answer.error || response.statusText);
  return answer;
}
