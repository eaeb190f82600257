// Questions to the server. Every answer is JSON; what the server refuses becomes an Error with its words.
export async function ask(name, given = {}) {
  const response = await fetch(`/api/${name}?${new URLSearchParams(given)}`);
  const answer = await response.json().catch(() => ({ error: `the server failed on ${name}; its terminal says why` }));
  if (!response.ok) throw new Error(answer.error || response.statusText);
  return answer;
}
