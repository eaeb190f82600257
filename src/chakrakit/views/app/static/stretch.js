// The stretch of time that the timeline shows, for tabs that add something up over it.
import { ask } from "./api.js";
import { timeText } from "./format.js";
import { state } from "./state.js";

// A page that is opened on such a tab has no timeline yet: then it is all of the first rank's time.
export async function stretch(session) {
  const rank = session.sides[state.side].folds[0]?.[0] ?? 0;
  const [from, to] = state.to ? [state.from, state.to] : (await ask("rank", { side: state.side, rank })).span;
  return { from: Math.round(from), to: Math.max(Math.round(to), Math.round(from) + 1), width: 1 };
}

export const stretchText = ({ from, to }) => `from ${timeText(from)} to ${timeText(to)}, what the timeline shows`;
