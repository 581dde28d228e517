// What thresholds make of scores: the rule of router/policy.py (EA-GraphRAG, equation 2).

export function routeOf(score, { low, high, simple }) {
  if (score >= high) return "graph";
  return score <= low ? simple : "fusion";
}

// Route -> share of the scores.
export function sharesOf(scores, thresholds) {
  const shares = { [thresholds.simple]: 0, fusion: 0, graph: 0 };
  for (const score of scores) shares[routeOf(score, thresholds)] += 1 / scores.length;
  return shares;
}

// A thresholds file for the router of a collection; router/model_files.py reads it.
export function thresholdsFile(tried, { scores, collection, router, thresholds, latency_ms: latency }) {
  const content = {
    router,
    low: tried.low,
    high: tried.high,
    simple: tried.simple,
    latency_ms: latency,
    notes: {
      from: "tried out in the console, not evaluated",
      collection,
      scores: scores.length,
      shares: scores.length ? sharesOf(scores, tried) : {},
      instead_of: thresholds,
      written: new Date().toISOString(),
    },
  };
  return `${JSON.stringify(content, null, 2)}\n`;
}
