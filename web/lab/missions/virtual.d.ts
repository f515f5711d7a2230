/** web/missions/*.yaml in their order (web/missions/plugin.ts). */
declare module "virtual:missions" {
  const missions: readonly import("./missions").Mission[];
  export default missions;
}
