import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/** The number of these objects that are alive after a garbage collection. For `expect.poll`. */
export function countAlive(objects: readonly WeakRef<object>[]): number {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  collect()
  return objects.filter((object) => object.deref() !== undefined).length
}
