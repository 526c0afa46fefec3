/** What cannot be combined in `[experiment]`. */
export function experimentProblems(
  experiment:
    | { readonly branch?: string | undefined; readonly commit_sha?: string | undefined }
    | undefined,
): string[] {
  if (experiment?.branch === undefined || experiment.commit_sha === undefined) return []
  return ['experiment.commit_sha: cannot be combined with branch; keep one of them']
}

/** Names of secrets that are repeated or have a value in `[env]`. */
export function secretProblems(sections: {
  readonly env?: Readonly<Record<string, string>> | undefined
  readonly secrets?: { readonly required?: readonly string[] } | undefined
}): string[] {
  const { env = {}, secrets } = sections
  const required = secrets?.required ?? []
  return required.flatMap((name, index) => {
    const place = `secrets.required.${index}`
    if (required.indexOf(name) !== index) return [`${place}: ${name} is listed twice`]
    if (!Object.hasOwn(env, name)) return []
    return [`${place}: ${name} is set in [env] too; keep one of them`]
  })
}
